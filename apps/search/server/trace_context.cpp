#include "trace_context.h"

#include <algorithm>
#include <sstream>

namespace search {
namespace {

bool hexadecimal(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char digit) {
        return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f');
    });
}

bool zero(const std::string& text) { return text.find_first_not_of('0') == std::string::npos; }

Phase phase_of(const std::string& tracestate) {
    std::istringstream members(tracestate);
    for (std::string member; std::getline(members, member, ',');) {
        const std::size_t begin = member.find_first_not_of(" \t");
        const std::size_t end = member.find_last_not_of(" \t");
        if (begin == std::string::npos) continue;
        const std::string trimmed = member.substr(begin, end - begin + 1);
        if (trimmed == "tailor=w") return Phase::warm_up;
        if (trimmed == "tailor=m") return Phase::measured;
    }
    return Phase::none;
}

}  // namespace

// https://www.w3.org/TR/trace-context/#traceparent-header: version "-" trace-id "-" parent-id "-" trace-flags; a later
// version may append more after another "-".
std::optional<TraceContext> parse_context(const std::string& traceparent, const std::string& tracestate) {
    constexpr std::size_t length = 55;
    if (traceparent.size() < length || traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-') {
        return std::nullopt;
    }
    const std::string version = traceparent.substr(0, 2), trace = traceparent.substr(3, 32),
                      parent = traceparent.substr(36, 16), flags = traceparent.substr(53, 2);
    const bool longer = traceparent.size() > length;
    if (version == "ff" || (longer && (version == "00" || traceparent[length] != '-'))) return std::nullopt;
    if (!hexadecimal(version + trace + parent + flags) || zero(trace) || zero(parent)) return std::nullopt;
    const bool sampled = (std::stoi(flags, nullptr, 16) & 1) != 0;
    return TraceContext{trace, parent, sampled, phase_of(tracestate)};
}

}  // namespace search
