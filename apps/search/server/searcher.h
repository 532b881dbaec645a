// Queries of the index.
#pragma once

#include <xapian.h>

#include <string>
#include <vector>

namespace search {

/// One reader of the index; each worker has its own, since Xapian's objects are not shared between threads.
class Searcher {
public:
    /// Throws Xapian::Error where `directory` has no index.
    explicit Searcher(const std::string& directory);

    /// The ten best entries with snippets, as JSON.  Throws Xapian::QueryParserError for a query that is none.
    std::string search(const std::string& query);

private:
    Xapian::Database database_;
    Xapian::SimpleStopper stopper_;
    Xapian::Stem stemmer_;
    Xapian::QueryParser parser_;
};

/// The text's words by rank, the most frequent first, from words.txt in `directory`.
class Vocabulary {
public:
    explicit Vocabulary(const std::string& directory);
    explicit Vocabulary(std::vector<std::string> words) : words_(std::move(words)) {}

    /// "2,17" -> the second and the seventeenth word.  Throws std::out_of_range for a rank that there is not.
    std::string words(const std::string& ranks) const;

private:
    std::vector<std::string> words_;
};

}  // namespace search
