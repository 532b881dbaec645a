#include "searcher.h"

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "stop_words.h"

namespace search {
namespace {

constexpr Xapian::doccount hits_shown = 10;
constexpr std::size_t snippet_bytes = 200;

using Json = nlohmann::ordered_json;

}  // namespace

Searcher::Searcher(const std::string& directory)
    : database_(directory + "/index"), stopper_(stop_words()), stemmer_("english") {
    parser_.set_stemmer(stemmer_);
    parser_.set_stemming_strategy(Xapian::QueryParser::STEM_SOME);
    parser_.set_stopper(&stopper_);
    parser_.set_database(database_);
}

std::string Searcher::search(const std::string& query) {
    Xapian::Enquire enquire(database_);
    enquire.set_query(parser_.parse_query(query));
    const Xapian::MSet found = enquire.get_mset(0, hits_shown);
    Json hits = Json::array();
    for (auto hit = found.begin(); hit != found.end(); ++hit) {
        const std::string data = hit.get_document().get_data();
        const std::size_t line = data.find('\n');
        hits.push_back({{"entry", data.substr(0, line)},
                        {"weight", hit.get_weight()},
                        {"snippet", found.snippet(data.substr(line + 1), snippet_bytes, stemmer_)}});
    }
    const Json reply = {{"query", query}, {"matches", found.get_matches_estimated()}, {"hits", hits}};
    // The dictionary's few bytes that are no UTF-8 must not make the whole reply unreadable.
    return reply.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Vocabulary::Vocabulary(const std::string& directory) {
    std::ifstream file(directory + "/words.txt");
    for (std::string word; std::getline(file, word);) words_.push_back(word);
    if (words_.empty()) throw std::runtime_error(directory + "/words.txt: cannot be read, or is empty");
}

std::string Vocabulary::words(const std::string& ranks) const {
    std::string result;
    std::istringstream parts(ranks);
    for (std::string part; std::getline(parts, part, ',');) {
        std::size_t rank = 0;
        const char* const end = part.data() + part.size();
        const auto [read, error] = std::from_chars(part.data(), end, rank);
        if (error != std::errc() || read != end || rank == 0 || rank > words_.size()) {
            throw std::out_of_range("rank \"" + part + "\": allowed is 1 to " + std::to_string(words_.size()));
        }
        if (!result.empty()) result += ' ';
        result += words_[rank - 1];
    }
    return result;
}

}  // namespace search
