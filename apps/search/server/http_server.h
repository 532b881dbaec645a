// An HTTP server on libevent: one thread reads requests and writes replies; a handler may answer later and from any
// thread, so that a connection never holds a worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct event;
struct event_base;
struct evhttp;
struct evhttp_request;

namespace search {

struct Request {
    std::string method, path;
    std::map<std::string, std::string> query;
    std::string traceparent, tracestate;
    std::chrono::steady_clock::time_point arrival;
};

struct Reply {
    int status = 200;
    std::string type = "text/plain";
    std::string body;
    std::function<void()> written;  // called once the reply was handed to the connection
};

/// Answers one request, once; any thread may call it.
using Answer = std::function<void(Reply)>;
using Handler = std::function<void(const Request&, const Answer&)>;

class HttpServer {
public:
    /// Listens at once and serves from `start` on; port 0 is any free one.  Throws std::runtime_error where the port is
    /// not free.
    HttpServer(std::uint16_t port, Handler handler);
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    void start();
    /// Writes the replies that are ready and stops; requests that are not answered stay so.
    void stop();

    std::uint16_t port() const { return port_; }

private:
    struct Ready {
        evhttp_request* request;
        Reply reply;
    };

    void receive(evhttp_request* request);
    void write_ready();

    const Handler handler_;
    std::uint16_t port_ = 0;
    std::unique_ptr<event_base, void (*)(event_base*)> base_;
    std::unique_ptr<evhttp, void (*)(evhttp*)> http_;
    std::unique_ptr<event, void (*)(event*)> wake_;
    std::mutex mutex_;
    std::vector<Ready> ready_;
    std::thread thread_;
};

/// The query of a URI as names and decoded values.
std::map<std::string, std::string> parse_query(const char* query);

}  // namespace search
