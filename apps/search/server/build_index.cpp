// Makes the index that the server opens: build-index DICTIONARY DIRECTORY.  It runs once, while the image is built.
#include <xapian.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "dictionary.h"
#include "stop_words.h"

namespace search {
namespace {

constexpr std::size_t words_kept = 20000;
constexpr std::size_t shortest_word = 3;

/// Indexes words and stems without their positions and without the list of each entry's terms: no query needs them,
/// and they would be two thirds of the index.
void index_entries(const std::vector<Entry>& entries, const std::string& path) {
    const int flags = Xapian::DB_CREATE_OR_OVERWRITE | Xapian::DB_BACKEND_GLASS | Xapian::DB_NO_TERMLIST;
    Xapian::WritableDatabase database(path, flags);
    Xapian::TermGenerator terms;
    terms.set_stemmer(Xapian::Stem("english"));
    for (const Entry& entry : entries) {
        Xapian::Document document;
        document.set_data(entry.headwords.front() + "\n" + entry.text);
        terms.set_document(document);
        for (const std::string& headword : entry.headwords) {
            terms.index_text_without_positions(headword, 5);  // a query by name finds the entry of that name first
        }
        terms.index_text_without_positions(entry.text);
        database.add_document(document);
    }
    database.commit();
}

bool plain(const std::string& term) {
    return term.size() >= shortest_word &&
           std::all_of(term.begin(), term.end(), [](unsigned char letter) { return std::islower(letter) != 0; });
}

/// The most frequent words of the text, the most frequent first; stop words are left out.
std::vector<std::string> vocabulary(const Xapian::Database& database) {
    const Xapian::SimpleStopper stopper = stop_words();
    std::vector<std::pair<Xapian::termcount, std::string>> counted;
    for (auto term = database.allterms_begin(); term != database.allterms_end(); ++term) {
        const std::string word = *term;  // stems begin with a Z and are not plain
        if (plain(word) && !stopper(word)) counted.emplace_back(database.get_collection_freq(word), word);
    }
    std::sort(counted.begin(), counted.end(), [](const auto& one, const auto& other) {
        return one.first != other.first ? one.first > other.first : one.second < other.second;
    });
    std::vector<std::string> words;
    for (const auto& [count, word] : counted) {
        if (words.size() == words_kept) break;
        words.push_back(word);
    }
    return words;
}

void build(const std::string& dictionary, const std::filesystem::path& directory) {
    std::filesystem::create_directories(directory);
    const std::string loose = directory / "loose", compact = directory / "index";
    index_entries(read_dictionary(dictionary), loose);
    Xapian::Database(loose).compact(compact);
    std::filesystem::remove_all(loose);
    const Xapian::Database database(compact);
    const std::vector<std::string> words = vocabulary(database);
    if (words.size() < words_kept) throw std::runtime_error(dictionary + ": has too few words");
    std::ofstream file(directory / "words.txt");
    for (const std::string& word : words) file << word << '\n';
    file.close();
    if (!file) throw std::runtime_error("words.txt: cannot be written");
    std::cout << database.get_doccount() << " entries, " << words.size() << " words\n";
}

}  // namespace
}  // namespace search

int main(int count, char** arguments) {
    if (count != 3) {
        std::cerr << "usage: build-index DICTIONARY DIRECTORY\n";
        return EXIT_FAILURE;
    }
    try {
        search::build(arguments[1], arguments[2]);
        return EXIT_SUCCESS;
    } catch (const Xapian::Error& error) {
        std::cerr << "build-index: " << error.get_description() << '\n';
    } catch (const std::exception& error) {
        std::cerr << "build-index: " << error.what() << '\n';
    }
    return EXIT_FAILURE;
}
