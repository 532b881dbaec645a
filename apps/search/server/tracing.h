// Makes one server span for each request, and exports them by OTLP over HTTP from a thread of its own.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trace_context.h"

namespace search {

struct Span {
    std::string trace_id, span_id, parent_id;
    std::string name, route;
    std::uint64_t start_ns = 0, end_ns = 0;  // since 1970
    int status = 200;                        // of HTTP
    double wait_ms = 0;                      // for a worker
    bool cached = false;                     // answered from the cache
    Phase phase = Phase::none;
};

/// Sends one batch of spans; whether the collector took it.
using Send = std::function<bool(const std::string& body)>;

/// The JSON of OTLP's ExportTraceServiceRequest (opentelemetry-proto, trace/v1).
std::string otlp_json(const std::string& service, const std::vector<Span>& spans);

/// Sends to `endpoint` + /v1/traces; `endpoint` is what OTEL_EXPORTER_OTLP_ENDPOINT says.  Throws std::runtime_error
/// for one that is no http:// address.
Send http_sender(const std::string& endpoint);

class Tracing {
public:
    /// Without `send` no spans are made.
    Tracing(std::string service, Send send);
    ~Tracing();
    Tracing(const Tracing&) = delete;
    Tracing& operator=(const Tracing&) = delete;

    /// A span below the caller's, or of a new trace; nothing where the caller's trace is not sampled.
    std::optional<Span> start(const std::string& name, const std::string& route,
                              const std::optional<TraceContext>& caller);

    /// Ends a span and queues it for the export; a span beyond the queue's end is lost, which the counts show.
    void end(Span span);

    /// Exports what is queued, for at most `limit`; whether all of it was tried.
    bool flush(std::chrono::milliseconds limit);

    /// {"created": {"w": .., "m": ..}, "exported": {..}, "failed": ..}: spans by phase since the start, as the Go
    /// services count them.
    std::string counts() const;

private:
    using PhaseCounts = std::array<std::uint64_t, 3>;  // by Phase

    void run();
    bool deliver(const std::vector<Span>& batch) const;

    const std::string service_;
    const Send send_;
    mutable std::mutex mutex_;
    std::condition_variable wake_, idle_;
    std::deque<Span> queue_;
    PhaseCounts created_{}, exported_{};
    std::uint64_t failed_ = 0;
    bool sending_ = false, hurry_ = false, closed_ = false;
    std::thread thread_;
};

}  // namespace search
