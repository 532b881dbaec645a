#include "options.h"

#include <sched.h>

#include <charconv>
#include <cstdlib>
#include <thread>

namespace search {
namespace {

std::size_t number(const Lookup& lookup, const char* name, std::size_t least, std::size_t by_default) {
    const std::optional<std::string> text = lookup(name);
    if (!text || text->empty()) return by_default;
    std::size_t value = 0;
    const char* const end = text->data() + text->size();
    const auto [read, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc() || read != end || value < least) {
        throw OptionError(std::string(name) + "=\"" + *text + "\": allowed is an integer of at least " +
                          std::to_string(least));
    }
    return value;
}

std::string word(const Lookup& lookup, const char* name, const std::string& by_default) {
    const std::optional<std::string> text = lookup(name);
    return text && !text->empty() ? *text : by_default;
}

}  // namespace

Options read_options(const Lookup& lookup, std::size_t cpus) {
    Options options;
    options.threads = number(lookup, "SEARCH_THREADS", 1, cpus * 3 / 2 + 1);
    options.queue_length = number(lookup, "QUEUE_LENGTH", 1, options.queue_length);
    options.cache_entries = number(lookup, "CACHE_ENTRIES", 0, options.cache_entries);
    const std::string order = word(lookup, "QUEUE_ORDER", name_of(options.queue_order));
    if (order != "fifo" && order != "lifo") {
        throw OptionError("QUEUE_ORDER=\"" + order + "\": allowed is fifo or lifo");
    }
    options.queue_order = order == "fifo" ? Order::fifo : Order::lifo;
    options.index = word(lookup, "SEARCH_INDEX", options.index);
    options.service = word(lookup, "OTEL_SERVICE_NAME", options.service);
    options.collector = word(lookup, "OTEL_EXPORTER_OTLP_ENDPOINT", "");
    return options;
}

std::optional<std::string> environment(const char* name) {
    const char* const text = std::getenv(name);
    return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

std::size_t usable_cpus() {
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) return static_cast<std::size_t>(CPU_COUNT(&cpus));
    return std::thread::hardware_concurrency();
}

const char* name_of(Order order) { return order == Order::fifo ? "fifo" : "lifo"; }

}  // namespace search
