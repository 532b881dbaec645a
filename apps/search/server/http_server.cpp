#include "http_server.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <event2/thread.h>
#include <netinet/tcp.h>
#include <sys/queue.h>

#include <stdexcept>
#include <utility>

namespace search {
namespace {

constexpr int backlog = 1024;
constexpr int idle_connection_s = 120;
constexpr ev_ssize_t largest_headers = 16 * 1024, largest_body = 64 * 1024;

std::string text(const char* value) { return value == nullptr ? "" : value; }

const char* method_of(evhttp_request* request) {
    return evhttp_request_get_command(request) == EVHTTP_REQ_POST ? "POST" : "GET";
}

evconnlistener* listen_on(event_base* base, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    const unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE;
    evconnlistener* const listener = evconnlistener_new_bind(
        base, nullptr, nullptr, flags, backlog, reinterpret_cast<sockaddr*>(&address), sizeof address);
    if (listener == nullptr) throw std::runtime_error("port " + std::to_string(port) + " is not free");
    const int on = 1;  // connections inherit it
    setsockopt(evconnlistener_get_fd(listener), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return listener;
}

std::uint16_t port_of(evconnlistener* listener) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    getsockname(evconnlistener_get_fd(listener), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
}

}  // namespace

std::map<std::string, std::string> parse_query(const char* query) {
    std::map<std::string, std::string> values;
    evkeyvalq parsed;
    if (query == nullptr || evhttp_parse_query_str(query, &parsed) != 0) return values;
    for (const evkeyval* pair = parsed.tqh_first; pair != nullptr; pair = pair->next.tqe_next) {
        values.emplace(pair->key, pair->value);
    }
    evhttp_clear_headers(&parsed);
    return values;
}

HttpServer::HttpServer(std::uint16_t port, Handler handler)
    : handler_(std::move(handler)),
      base_(nullptr, event_base_free),
      http_(nullptr, evhttp_free),
      wake_(nullptr, event_free) {
    evthread_use_pthreads();
    base_.reset(event_base_new());
    http_.reset(evhttp_new(base_.get()));
    evconnlistener* const listener = listen_on(base_.get(), port);
    port_ = port_of(listener);
    evhttp_bind_listener(http_.get(), listener);
    evhttp_set_allowed_methods(http_.get(), EVHTTP_REQ_GET | EVHTTP_REQ_POST);
    evhttp_set_timeout(http_.get(), idle_connection_s);
    evhttp_set_max_headers_size(http_.get(), largest_headers);
    evhttp_set_max_body_size(http_.get(), largest_body);
    const auto receive = [](evhttp_request* request, void* self) { static_cast<HttpServer*>(self)->receive(request); };
    evhttp_set_gencb(http_.get(), receive, this);
    const auto write = [](evutil_socket_t, short, void* self) { static_cast<HttpServer*>(self)->write_ready(); };
    wake_.reset(event_new(base_.get(), -1, EV_PERSIST, write, this));
}

HttpServer::~HttpServer() { stop(); }

void HttpServer::start() {
    thread_ = std::thread([this] { event_base_dispatch(base_.get()); });
}

void HttpServer::stop() {
    if (!thread_.joinable()) return;
    event_base_loopexit(base_.get(), nullptr);  // after the events that are due, the replies among them
    thread_.join();
}

void HttpServer::receive(evhttp_request* raw) {
    const evhttp_uri* const uri = evhttp_request_get_evhttp_uri(raw);
    const evkeyvalq* const headers = evhttp_request_get_input_headers(raw);
    Request request;
    request.arrival = std::chrono::steady_clock::now();
    request.method = method_of(raw);
    request.path = text(uri == nullptr ? nullptr : evhttp_uri_get_path(uri));
    request.query = parse_query(uri == nullptr ? nullptr : evhttp_uri_get_query(uri));
    request.traceparent = text(evhttp_find_header(headers, "traceparent"));
    request.tracestate = text(evhttp_find_header(headers, "tracestate"));
    // libevent reads nothing of a connection whose request is not answered, so `raw` lives until its reply.
    handler_(request, [this, raw](Reply reply) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ready_.push_back({raw, std::move(reply)});
        }
        event_active(wake_.get(), 0, 0);
    });
}

void HttpServer::write_ready() {
    std::vector<Ready> ready;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ready.swap(ready_);
    }
    for (const auto& [request, reply] : ready) {
        evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", reply.type.c_str());
        evbuffer_add(evhttp_request_get_output_buffer(request), reply.body.data(), reply.body.size());
        evhttp_send_reply(request, reply.status, nullptr, nullptr);
        if (reply.written) reply.written();
    }
}

}  // namespace search
