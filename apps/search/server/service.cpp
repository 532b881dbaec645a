#include "service.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace search {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t longest_query = 1000;  // bytes
constexpr std::chrono::milliseconds flush_limit{5000};

constexpr int ok = 200, bad_request = 400, not_found = 404, internal_error = 500, bad_gateway = 502, unavailable = 503;

const char* const json = "application/json";
const char* const prometheus = "text/plain; version=0.0.4";

/// The caller's mistake; the text is for the caller.
struct BadRequest : std::runtime_error {
    using std::runtime_error::runtime_error;
};

std::vector<std::unique_ptr<Searcher>> searchers(const Options& options) {
    std::vector<std::unique_ptr<Searcher>> made;
    for (std::size_t worker = 0; worker < options.threads; ++worker) {
        made.push_back(std::make_unique<Searcher>(options.index));
    }
    return made;
}

}  // namespace

struct SearchService::Search {
    std::string query;
    Answer answer;
    Clock::time_point arrival;
    std::optional<Span> span;
};

SearchService::SearchService(const Options& options)
    : vocabulary_(options.index),
      searchers_(searchers(options)),
      cache_(options.cache_entries),
      tracing_(options.service, options.collector.empty() ? Send{} : http_sender(options.collector)),
      queue_(options.threads, options.queue_length, options.queue_order) {}

void SearchService::close() { queue_.close(); }

void SearchService::handle(const Request& request, const Answer& answer) {
    if (request.path == "/search") {
        search(request, answer);
    } else if (request.path == "/health") {
        answer({ok, "text/plain", "ok\n", {}});
    } else if (request.path == "/metrics") {
        answer({ok, prometheus, metrics(), {}});
    } else {
        answer({not_found, "text/plain", request.path + ": there is /search, /health and /metrics\n", {}});
    }
}

void SearchService::administer(const Request& request, const Answer& answer) {
    if (request.path == "/parameters") {
        answer({ok, json, parameters(), {}});
    } else if (request.path == "/spans") {
        answer({ok, json, tracing_.counts(), {}});
    } else if (request.path == "/flush" && request.method == "POST") {
        const bool flushed = tracing_.flush(flush_limit);
        answer(flushed ? Reply{ok, json, tracing_.counts(), {}}
                       : Reply{bad_gateway, "text/plain", "flush: the collector did not take all spans in time\n", {}});
    } else if (request.path == "/search") {
        answer({not_found, "text/plain", "/search: not on this port\n", {}});
    } else {
        handle(request, answer);
    }
}

void SearchService::search(const Request& request, const Answer& answer) {
    const auto context = parse_context(request.traceparent, request.tracestate);
    const auto search = std::make_shared<Search>(
        Search{{}, answer, request.arrival, tracing_.start("GET /search", "/search", context)});
    try {
        search->query = query_of(request);
    } catch (const BadRequest& mistake) {
        finish(*search, bad_request, mistake.what());
        return;
    }
    if (const auto cached = cache_.find(search->query)) {
        if (search->span) search->span->cached = true;
        finish(*search, ok, *cached);
        return;
    }
    if (!queue_.offer([this, search](std::size_t worker) { work(*search, worker); })) {
        finish(*search, unavailable, "too many searches are waiting\n");
    }
}

void SearchService::work(Search& search, std::size_t worker) {
    if (search.span) search.span->wait_ms = Milliseconds(Clock::now() - search.arrival).count();
    try {
        const std::string reply = searchers_[worker]->search(search.query);
        cache_.keep(search.query, reply);
        finish(search, ok, reply);
    } catch (const Xapian::QueryParserError& mistake) {
        finish(search, bad_request, mistake.get_msg() + "\n");
    } catch (const Xapian::Error& error) {
        std::cerr << "search \"" << search.query << "\": " << error.get_description() << std::endl;
        finish(search, internal_error, "the index could not be searched\n");
    }
}

void SearchService::finish(Search& search, int status, const std::string& body) {
    // Counted and ended when the reply was written, so that the way back to the connection's thread is in the latency.
    const auto written = [this, status, arrival = search.arrival, span = std::move(search.span)]() mutable {
        if (status == ok) latency_.observe(Seconds(Clock::now() - arrival).count());
        if (status == unavailable) ++refused_;
        if (status == bad_request) ++wrong_;
        if (status == internal_error) ++failed_;
        if (!span) return;
        span->status = status;
        tracing_.end(std::move(*span));
    };
    search.answer({status, status == ok ? json : "text/plain", body, written});
}

std::string SearchService::query_of(const Request& request) const {
    const auto words = request.query.find("q"), ranks = request.query.find("ranks");
    const bool by_words = words != request.query.end(), by_rank = ranks != request.query.end();
    if (by_words == by_rank) throw BadRequest("give q=WORDS, or ranks=NUMBER,NUMBER\n");
    std::string query;
    try {
        query = by_words ? words->second : vocabulary_.words(ranks->second);
    } catch (const std::out_of_range& mistake) {
        throw BadRequest(std::string(mistake.what()) + "\n");
    }
    if (query.empty() || query.size() > longest_query) {
        throw BadRequest("a query has 1 to " + std::to_string(longest_query) + " bytes\n");
    }
    return query;
}

std::string SearchService::metrics() const {
    const ReplyCache::Counts cache = cache_.counts();
    return latency_.text("search_request_duration_seconds", "Latency of answered searches, the wait included.") +
           metric("search_refused_total", "counter", "Searches refused because the queue was full (503).", refused_) +
           metric("search_wrong_total", "counter", "Requests that are no search (400).", wrong_) +
           metric("search_failed_total", "counter", "Searches that the index could not answer (500).", failed_) +
           metric("search_cache_hits_total", "counter", "Searches answered from the cache.", cache.hits) +
           metric("search_cache_misses_total", "counter", "Searches that were not in the cache.", cache.misses) +
           metric("search_cache_entries", "gauge", "Replies in the cache.", cache.entries) +
           metric("search_waiting", "gauge", "Searches that wait for a worker.", queue_.waiting()) +
           metric("search_threads", "gauge", "Workers.", queue_.workers());
}

std::string SearchService::parameters() const {
    return nlohmann::json{{"SEARCH_THREADS", queue_.workers()},
                          {"QUEUE_LENGTH", queue_.length()},
                          {"QUEUE_ORDER", name_of(queue_.order())},
                          {"CACHE_ENTRIES", cache_.capacity()}}
        .dump();
}

}  // namespace search
