// Tests of the parts, run while the image is built.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "dictionary.h"
#include "http_server.h"
#include "metrics.h"
#include "options.h"
#include "reply_cache.h"
#include "searcher.h"
#include "tracing.h"
#include "work_queue.h"

using namespace search;
using nlohmann::json;

namespace {

const std::string trace = "0af7651916cd43dd8448eb211c80319c", parent = "b7ad6b7169203331";
const std::string sampled = "00-" + trace + "-" + parent + "-01", unsampled = "00-" + trace + "-" + parent + "-00";

/// Runs tasks 1, 2 and 3 that waited for one busy worker; the order in which they ran.
std::vector<int> order_of(Order order) {
    std::vector<int> ran;
    std::promise<void> release, busy;
    WorkQueue queue(1, 3, order);
    REQUIRE(queue.offer([&](std::size_t) { busy.set_value(); release.get_future().wait(); }));
    busy.get_future().wait();
    for (const int number : {1, 2, 3}) REQUIRE(queue.offer([&ran, number](std::size_t) { ran.push_back(number); }));
    CHECK(queue.waiting() == 3);
    CHECK_FALSE(queue.offer([](std::size_t) {}));
    release.set_value();
    queue.close();
    return ran;
}

Options options_with(const std::string& name, const std::string& value) {
    return read_options([&](const char* asked) { return asked == name ? std::optional(value) : std::nullopt; }, 2);
}

}  // namespace

TEST_CASE("a full queue refuses, and what was accepted is done in its order") {
    CHECK(order_of(Order::fifo) == std::vector<int>{1, 2, 3});
    CHECK(order_of(Order::lifo) == std::vector<int>{3, 2, 1});
}

TEST_CASE("a closed queue refuses") {
    WorkQueue queue(2, 5, Order::fifo);
    queue.close();
    CHECK_FALSE(queue.offer([](std::size_t) {}));
}

TEST_CASE("the least recently used reply makes room") {
    ReplyCache cache(2);
    cache.keep("a", "1");
    cache.keep("b", "2");
    CHECK(cache.find("a") == "1");
    cache.keep("c", "3");
    CHECK_FALSE(cache.find("b"));
    CHECK(cache.find("a") == "1");
    CHECK(cache.find("c") == "3");
    CHECK(cache.counts().entries == 2);
    CHECK(cache.counts().hits == 3);
    CHECK(cache.counts().misses == 1);
}

TEST_CASE("a cache of nothing keeps nothing") {
    ReplyCache cache(0);
    cache.keep("a", "1");
    CHECK_FALSE(cache.find("a"));
}

TEST_CASE("options have defaults, and refuse what is none") {
    const Options defaults = read_options([](const char*) { return std::nullopt; }, 2);
    CHECK(defaults.threads == 4);
    CHECK(defaults.queue_length == 1000);
    CHECK(defaults.queue_order == Order::fifo);
    CHECK(defaults.cache_entries == 512);
    CHECK(read_options([](const char*) { return std::nullopt; }, 1).threads == 2);
    CHECK(options_with("SEARCH_THREADS", "7").threads == 7);
    CHECK(options_with("CACHE_ENTRIES", "0").cache_entries == 0);
    CHECK(options_with("QUEUE_ORDER", "lifo").queue_order == Order::lifo);
    CHECK(options_with("QUEUE_LENGTH", "").queue_length == 1000);
    CHECK_THROWS_AS(options_with("QUEUE_LENGTH", "0"), OptionError);
    CHECK_THROWS_AS(options_with("QUEUE_LENGTH", "9x"), OptionError);
    CHECK_THROWS_AS(options_with("SEARCH_THREADS", "-1"), OptionError);
    CHECK_THROWS_AS(options_with("QUEUE_ORDER", "random"), OptionError);
}

TEST_CASE("the caller's trace is read as W3C says") {
    const auto context = parse_context(sampled, "other=x, tailor=m");
    REQUIRE(context);
    CHECK(context->trace_id == trace);
    CHECK(context->span_id == parent);
    CHECK(context->sampled);
    CHECK(context->phase == Phase::measured);
    CHECK(parse_context(sampled, "tailor=w")->phase == Phase::warm_up);
    CHECK(parse_context(sampled, "tailor=?,x=tailor=m")->phase == Phase::none);
    CHECK_FALSE(parse_context(unsampled, "")->sampled);
    CHECK(parse_context("01-" + trace + "-" + parent + "-01-later", ""));
    for (const std::string& wrong : {std::string(), sampled.substr(1), sampled + "-more", "ff" + sampled.substr(2),
                                     "00-" + std::string(32, '0') + "-" + parent + "-01",
                                     "00-" + trace + "-" + std::string(16, '0') + "-01",
                                     "00-" + trace + "-" + parent + "-0x",
                                     "00-" + std::string(32, 'A') + sampled.substr(35)}) {
        CHECK_FALSE(parse_context(wrong, ""));
    }
}

TEST_CASE("spans are exported with their parents and counted by phase") {
    std::vector<json> sent;
    Tracing tracing("under-test", [&](const std::string& body) { sent.push_back(json::parse(body)); return true; });
    for (const char* phase : {"tailor=w", "tailor=m", "tailor=m", ""}) {
        auto span = tracing.start("GET /search", "/search", parse_context(sampled, phase));
        REQUIRE(span);
        span->status = 503;
        tracing.end(*span);
    }
    CHECK_FALSE(tracing.start("GET /search", "/search", parse_context(unsampled, "tailor=m")));
    REQUIRE(tracing.flush(std::chrono::minutes(1)));
    CHECK(json::parse(tracing.counts()) ==
          json{{"created", {{"w", 1}, {"m", 2}}}, {"exported", {{"w", 1}, {"m", 2}}}, {"failed", 0}});
    const json first = sent.at(0)["/resourceSpans/0/scopeSpans/0/spans/0"_json_pointer];
    CHECK(first["traceId"] == trace);
    CHECK(first["parentSpanId"] == parent);
    CHECK(first["kind"] == 2);
    CHECK(first["status"]["code"] == 2);
    CHECK(std::stoull(first["endTimeUnixNano"].get<std::string>()) >=
          std::stoull(first["startTimeUnixNano"].get<std::string>()));
}

TEST_CASE("a request without a caller's trace begins one") {
    Tracing tracing("under-test", [](const std::string&) { return true; });
    const auto span = tracing.start("GET /search", "/search", std::nullopt);
    REQUIRE(span);
    CHECK(span->trace_id.size() == 32);
    CHECK(span->span_id.size() == 16);
    CHECK(span->parent_id.empty());
}

TEST_CASE("spans that nobody takes are counted as failed") {
    Tracing tracing("under-test", [](const std::string&) { return false; });
    tracing.end(*tracing.start("GET /search", "/search", parse_context(sampled, "tailor=m")));
    REQUIRE(tracing.flush(std::chrono::minutes(1)));
    const json counts = json::parse(tracing.counts());
    CHECK(counts["created"]["m"] == 1);
    CHECK(counts["exported"]["m"] == 0);
    CHECK(counts["failed"] == 1);
}

TEST_CASE("without a collector there are no spans") {
    Tracing tracing("under-test", Send{});
    CHECK_FALSE(tracing.start("GET /search", "/search", parse_context(sampled, "")));
}

TEST_CASE("replies written by another thread reach their connection") {
    std::promise<std::string> asked;
    std::promise<void> written;
    HttpServer server(0, [&](const Request& request, const Answer& answer) {
        asked.set_value(request.method + " " + request.path);
        std::thread([&written, answer] {
            answer({200, "application/json", "{}", [&written] { written.set_value(); }});
        }).detach();
    });
    server.start();
    const std::string endpoint = "http://127.0.0.1:" + std::to_string(server.port());
    CHECK_FALSE(http_sender("http://127.0.0.1:1")("{}"));
    CHECK_THROWS(http_sender("collector:4318"));
    CHECK_THROWS_AS(HttpServer(server.port(), nullptr), std::runtime_error);
    std::thread client([&] { CHECK(http_sender(endpoint + "/base/")("{}")); });
    CHECK(asked.get_future().get() == "POST /base/v1/traces");
    written.get_future().wait();
    client.join();
}

TEST_CASE("the query of a URI is decoded") {
    CHECK(parse_query("q=a%20b+c&ranks=1%2C2") == std::map<std::string, std::string>{{"q", "a b c"}, {"ranks", "1,2"}});
    CHECK(parse_query(nullptr).empty());
    CHECK(parse_query("").empty());
}

TEST_CASE("the buckets of a histogram are cumulated") {
    Histogram histogram;
    for (const double seconds : {0.0001, 0.0003, 0.0003, 60.0}) histogram.observe(seconds);
    const std::string text = histogram.text("latency", "Help.");
    CHECK(text.find("# TYPE latency histogram\nlatency_bucket{le=\"0.00025\"} 1\n") != std::string::npos);
    CHECK(text.find("latency_bucket{le=\"0.000353553\"} 3\n") != std::string::npos);
    CHECK(text.find("latency_bucket{le=\"+Inf\"} 4\nlatency_sum 60.0007\nlatency_count 4\n") != std::string::npos);
    CHECK(Histogram::bound_s(Histogram::bounds - 1) == doctest::Approx(2.8963).epsilon(0.001));
}

TEST_CASE("a dictd index leads to places in the text") {
    CHECK(parse_base64("A") == 0);
    CHECK(parse_base64("BA") == 64);
    CHECK(parse_base64("5I") == 57 * 64 + 8);
    CHECK_THROWS(parse_base64("?"));
    const Places places = parse_places("00-database-short\tA\tB\npalm\tB\tC\npalms\tB\tC\nzero\tE\tB\n");
    REQUIRE(places.size() == 2);
    CHECK(places.at({1, 2}) == std::vector<std::string>{"palm", "palms"});
    CHECK_THROWS(parse_places("no tab here\n"));
}

TEST_CASE("a text loses its layout and the notes of its sources") {
    CHECK(single_spaced("  a\n  b\tc ") == "a b c");
    CHECK(without_sources("a tree. [1913 Webster] [Obs.] [PJC]") == "a tree.  [Obs.] ");
    CHECK(without_sources("[unclosed") == "[unclosed");
    CHECK(without_sources("") == "");
}

TEST_CASE("words are found by their stems, and by their rank") {
    const std::filesystem::path directory = std::filesystem::temp_directory_path() / "tailor-search-tests";
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    {
        Xapian::WritableDatabase database((directory / "index").string(), Xapian::DB_CREATE);
        Xapian::TermGenerator terms;
        terms.set_stemmer(Xapian::Stem("english"));
        const char* const texts[] = {"Palm\nA tree that grows <there>.", "Sea\nSalt water.",
                                     "Odd\nNot UTF-8: \xff water."};
        for (const char* const text : texts) {
            Xapian::Document document;
            document.set_data(text);
            terms.set_document(document);
            terms.index_text(text);
            database.add_document(document);
        }
    }
    std::ofstream(directory / "words.txt") << "water\ntree\n";
    Searcher searcher(directory);
    const json found = json::parse(searcher.search("growing trees"));
    CHECK(found["matches"] == 1);
    CHECK(found["hits"][0]["entry"] == "Palm");
    CHECK(found["hits"][0]["snippet"] == "A <b>tree</b> that <b>grows</b> &lt;there&gt;.");
    CHECK(json::parse(searcher.search("water"))["hits"].size() == 2);
    CHECK(json::parse(searcher.search("nowhere"))["hits"].empty());
    CHECK_THROWS_AS(searcher.search("water AND"), Xapian::QueryParserError);
    const Vocabulary vocabulary(directory);
    CHECK(vocabulary.words("2,1,2") == "tree water tree");
    for (const char* wrong : {"0", "3", "x", "1,,2", "-1", "1 "}) {
        CHECK_THROWS_AS(vocabulary.words(wrong), std::out_of_range);
    }
    CHECK_THROWS_AS(Searcher(directory / "nowhere"), Xapian::Error);
    std::filesystem::remove_all(directory);
}
