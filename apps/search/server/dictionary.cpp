#include "dictionary.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace search {
namespace {

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string read_compressed(const std::string& path) {
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    std::string text, part(1 << 20, '\0');
    for (;;) {
        const int count = gzread(file.get(), part.data(), static_cast<unsigned>(part.size()));
        if (count < 0) throw std::runtime_error(path + ": is not compressed as gzip reads it");
        if (count == 0) return text;
        text.append(part, 0, static_cast<std::size_t>(count));
    }
}

}  // namespace

std::size_t parse_base64(const std::string& digits) {
    static const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::size_t value = 0;
    for (const char digit : digits) {
        const std::size_t worth = alphabet.find(digit);
        if (worth == std::string::npos) throw std::runtime_error("\"" + digits + "\" is no number of a dictd index");
        value = value * alphabet.size() + worth;
    }
    return value;
}

Places parse_places(const std::string& index) {
    Places places;
    std::istringstream lines(index);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream columns(line);
        std::string headword, offset, length;
        std::getline(columns, headword, '\t');
        std::getline(columns, offset, '\t');
        std::getline(columns, length, '\t');
        if (offset.empty() || length.empty()) throw std::runtime_error("\"" + line + "\" is no line of a dictd index");
        if (headword.rfind("00", 0) == 0) continue;
        places[{parse_base64(offset), parse_base64(length)}].push_back(headword);
    }
    return places;
}

std::string single_spaced(const std::string& text) {
    std::istringstream words(text);
    std::string result;
    for (std::string word; words >> word;) {
        if (!result.empty()) result += ' ';
        result += word;
    }
    return result;
}

std::string without_sources(const std::string& text) {
    std::string result;
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t begin = std::min(text.find('[', at), text.size());
        const std::size_t end = std::min(text.find(']', begin), text.size());
        result.append(text, at, begin - at);
        const std::string note = text.substr(begin, end - begin + 1);
        const auto names = [&note](const char* source) { return note.find(source) != std::string::npos; };
        if (!names("Webster") && !names("PJC") && !names("WordNet")) result += note;
        at = end + 1;
    }
    return result;
}

std::vector<Entry> read_dictionary(const std::string& stem) {
    const std::string text = read_compressed(stem + ".dict.dz");
    std::vector<Entry> entries;
    for (auto& [place, headwords] : parse_places(read_file(stem + ".index"))) {
        const auto [offset, length] = place;
        if (offset + length > text.size()) throw std::runtime_error(stem + ": the index leads beyond the text's end");
        const std::string paragraphs = single_spaced(text.substr(offset, length));
        entries.push_back({headwords, single_spaced(without_sources(paragraphs))});
    }
    return entries;
}

}  // namespace search
