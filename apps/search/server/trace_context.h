// What a caller says of its trace: the headers of W3C Trace Context.
#pragma once

#include <optional>
#include <string>

namespace search {

/// Of which phase of a load a request is, by the member "tailor" of tracestate.
enum class Phase { none, warm_up, measured };

struct TraceContext {
    std::string trace_id, span_id;  // 32 and 16 hexadecimal digits
    bool sampled;
    Phase phase;
};

/// The caller's context; nothing where traceparent is missing or not one.
std::optional<TraceContext> parse_context(const std::string& traceparent, const std::string& tracestate);

}  // namespace search
