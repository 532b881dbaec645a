// The search service: what each path answers, and what is counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http_server.h"
#include "metrics.h"
#include "options.h"
#include "reply_cache.h"
#include "searcher.h"
#include "tracing.h"
#include "work_queue.h"

namespace search {

class SearchService {
public:
    /// Opens the index once for each worker.  Throws Xapian::Error where there is none.
    explicit SearchService(const Options& options);

    /// /search, /health, /metrics: for clients.
    void handle(const Request& request, const Answer& answer);

    /// /health, /metrics, /parameters, /spans, /flush: for who operates it, on a port of its own, so that a server that
    /// is busy still answers.
    void administer(const Request& request, const Answer& answer);

    /// Finishes the searches that were accepted and exports the last spans.
    void close();

private:
    struct Search;  // one request of /search under way

    void search(const Request& request, const Answer& answer);
    void work(Search& search, std::size_t worker);
    void finish(Search& search, int status, const std::string& body);
    std::string query_of(const Request& request) const;
    std::string metrics() const;
    std::string parameters() const;

    const Vocabulary vocabulary_;
    std::vector<std::unique_ptr<Searcher>> searchers_;  // by worker
    ReplyCache cache_;
    Tracing tracing_;
    Histogram latency_;
    std::atomic<std::uint64_t> refused_{0}, wrong_{0}, failed_{0};
    WorkQueue queue_;  // last: its workers use everything above
};

}  // namespace search
