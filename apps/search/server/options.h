// The server's parameters, from the environment.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "work_queue.h"

namespace search {

/// Says which variable has a value that cannot be used: correct it and start again.
struct OptionError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Defaults are those that Elasticsearch documents for its search thread pool and Solr for its queryResultCache.
struct Options {
    std::size_t threads;              // SEARCH_THREADS: 3/2 of the usable CPUs, and one
    std::size_t queue_length = 1000;  // QUEUE_LENGTH
    Order queue_order = Order::fifo;  // QUEUE_ORDER
    std::size_t cache_entries = 512;  // CACHE_ENTRIES; 0: no cache
    std::string index = "/usr/share/tailor-search";  // SEARCH_INDEX
    std::string service = "search";                  // OTEL_SERVICE_NAME
    std::string collector;                           // OTEL_EXPORTER_OTLP_ENDPOINT; empty: no spans are made
};

using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Read the options; unset and empty variables mean the default.  Throws OptionError.
Options read_options(const Lookup& lookup, std::size_t usable_cpus);

/// The process's own environment.
std::optional<std::string> environment(const char* name);

/// CPUs that this process may run on.
std::size_t usable_cpus();

const char* name_of(Order order);

}  // namespace search
