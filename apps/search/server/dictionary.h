// Reads a dictionary in the format of the DICT server (dictd(8), dictzip(1)): an index of headwords with places, and a
// text compressed so that gzip reads it too.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace search {

struct Entry {
    std::vector<std::string> headwords;  // all that the index leads from to this text
    std::string text;                    // with single spaces, without the notes of where each paragraph is from
};

/// Offset and length in the text -> the headwords that lead there.  Headwords that begin with "00" are about the
/// dictionary itself and left out.  Throws std::runtime_error for a line that is none of the format.
using Places = std::map<std::pair<std::size_t, std::size_t>, std::vector<std::string>>;
Places parse_places(const std::string& index);

/// A number as dictd writes it: in base 64, the most significant digit first.
std::size_t parse_base64(const std::string& digits);

/// Runs of white space become one space; none at either end.
std::string single_spaced(const std::string& text);

/// The text without "[1913 Webster]", "[PJC]", "[WordNet 1.5]" and their like, which end most paragraphs of the GCIDE.
std::string without_sources(const std::string& text);

/// The entries of `stem`.index and `stem`.dict.dz, in the order of the text.
std::vector<Entry> read_dictionary(const std::string& stem);

}  // namespace search
