// English words that a query is not about.
#pragma once

#include <xapian.h>

namespace search {

/// A stopper of the words that are in most English texts.
inline Xapian::SimpleStopper stop_words() {
    static const char* const words[] = {
        "a",     "about", "after", "all",   "also", "an",    "and",   "any",  "are",   "as",   "at",    "be",
        "been",  "but",   "by",    "can",   "do",   "for",   "from",  "had",  "has",   "have", "he",    "her",
        "his",   "if",    "in",    "into",  "is",   "it",    "its",   "may",  "more",  "most", "no",    "not",
        "of",    "on",    "one",   "or",    "other", "our",  "out",   "so",   "some",  "such", "than",  "that",
        "the",   "their", "them",  "then",  "there", "these", "they", "this", "those", "to",   "upon",  "was",
        "we",    "were",  "what",  "when",  "which", "who",  "will",  "with", "would", "you",  "your",
    };
    return Xapian::SimpleStopper(std::begin(words), std::end(words));
}

}  // namespace search
