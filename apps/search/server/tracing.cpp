#include "tracing.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

namespace search {
namespace {

// As in apps/common/service: a second of spans waits at most, and nothing is dropped while the exporter waits.
constexpr std::size_t queue_size = 16384, batch_size = 512;
constexpr std::chrono::milliseconds delay{500};
constexpr int tries = 5;
constexpr std::chrono::milliseconds pause_between_tries{200};

using Json = nlohmann::json;

std::uint64_t now_ns() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

std::string random_id(std::size_t digits) {
    thread_local std::mt19937_64 random{std::random_device{}()};
    std::string id;
    while (id.size() < digits) {
        char text[17];
        std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random()));
        id += text;
    }
    return id;
}

Json attribute(const char* key, Json value) { return {{"key", key}, {"value", std::move(value)}}; }

Json json_of(const Span& span) {
    Json attributes = Json::array({
        attribute("http.request.method", {{"stringValue", "GET"}}),
        attribute("http.route", {{"stringValue", span.route}}),
        attribute("http.response.status_code", {{"intValue", std::to_string(span.status)}}),
        attribute("search.wait_ms", {{"doubleValue", span.wait_ms}}),
        attribute("search.cached", {{"boolValue", span.cached}}),
    });
    constexpr int server_kind = 2, error_code = 2, first_server_error = 500;
    Json json = {{"traceId", span.trace_id},
                 {"spanId", span.span_id},
                 {"name", span.name},
                 {"kind", server_kind},
                 {"startTimeUnixNano", std::to_string(span.start_ns)},
                 {"endTimeUnixNano", std::to_string(span.end_ns)},
                 {"attributes", std::move(attributes)}};
    if (!span.parent_id.empty()) json["parentSpanId"] = span.parent_id;
    if (span.status >= first_server_error) json["status"] = {{"code", error_code}};
    return json;
}

}  // namespace

std::string otlp_json(const std::string& service, const std::vector<Span>& spans) {
    Json listed = Json::array();
    for (const Span& span : spans) listed.push_back(json_of(span));
    const Json resource = {{"attributes", Json::array({attribute("service.name", {{"stringValue", service}})})}};
    const Json scope = {{"scope", {{"name", "tailor/apps/search"}}}, {"spans", std::move(listed)}};
    const Json request = {
        {"resourceSpans", Json::array({Json{{"resource", resource}, {"scopeSpans", Json::array({scope})}}})}};
    return request.dump();
}

Tracing::Tracing(std::string service, Send send) : service_(std::move(service)), send_(std::move(send)) {
    if (send_) thread_ = std::thread([this] { run(); });
}

Tracing::~Tracing() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

std::optional<Span> Tracing::start(const std::string& name, const std::string& route,
                                   const std::optional<TraceContext>& caller) {
    if (!send_ || (caller && !caller->sampled)) return std::nullopt;
    Span span;
    span.name = name;
    span.route = route;
    span.start_ns = now_ns();
    span.span_id = random_id(16);
    span.trace_id = caller ? caller->trace_id : random_id(32);
    if (caller) {
        span.parent_id = caller->span_id;
        span.phase = caller->phase;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ++created_[static_cast<std::size_t>(span.phase)];
    return span;
}

void Tracing::end(Span span) {
    span.end_ns = now_ns();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (queue_.size() == queue_size) return;
    queue_.push_back(std::move(span));
    if (queue_.size() == batch_size) wake_.notify_all();
}

bool Tracing::flush(std::chrono::milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    hurry_ = true;
    wake_.notify_all();
    return idle_.wait_for(lock, limit, [this] { return queue_.empty() && !sending_; });
}

std::string Tracing::counts() const {
    const auto by_phase = [](const PhaseCounts& counts) {
        return Json{{"w", counts[static_cast<std::size_t>(Phase::warm_up)]},
                    {"m", counts[static_cast<std::size_t>(Phase::measured)]}};
    };
    const std::lock_guard<std::mutex> lock(mutex_);
    return Json{{"created", by_phase(created_)}, {"exported", by_phase(exported_)}, {"failed", failed_}}.dump();
}

void Tracing::run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        wake_.wait_for(lock, delay, [this] { return closed_ || hurry_ || queue_.size() >= batch_size; });
        while (!queue_.empty()) {
            const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(std::min(queue_.size(), batch_size));
            const std::vector<Span> batch(std::make_move_iterator(queue_.begin()), std::make_move_iterator(end));
            queue_.erase(queue_.begin(), end);
            sending_ = true;
            lock.unlock();
            const bool taken = deliver(batch);
            lock.lock();
            sending_ = false;
            for (const Span& span : batch) taken ? ++exported_[static_cast<std::size_t>(span.phase)] : ++failed_;
        }
        hurry_ = false;
        idle_.notify_all();
        if (closed_) return;
    }
}

bool Tracing::deliver(const std::vector<Span>& batch) const {
    const std::string body = otlp_json(service_, batch);
    for (int attempt = 1;; ++attempt) {
        if (send_(body)) return true;
        if (attempt == tries) return false;
        std::this_thread::sleep_for(pause_between_tries);
    }
}

}  // namespace search
