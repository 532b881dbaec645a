// POSTs to the collector, with libevent's client on a loop of its own, on one connection that is kept.
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "tracing.h"

namespace search {
namespace {

constexpr int timeout_s = 10;
constexpr int default_port = 4318;

class Client {
public:
    explicit Client(const std::string& endpoint)
        : uri_(evhttp_uri_parse(endpoint.c_str()), evhttp_uri_free),
          base_(event_base_new(), event_base_free),
          connection_(nullptr, evhttp_connection_free) {
        const char* const scheme = uri_ ? evhttp_uri_get_scheme(uri_.get()) : nullptr;
        const char* const host = uri_ ? evhttp_uri_get_host(uri_.get()) : nullptr;
        if (scheme == nullptr || std::string(scheme) != "http" || host == nullptr || *host == '\0') {
            throw std::runtime_error("OTEL_EXPORTER_OTLP_ENDPOINT=\"" + endpoint + "\": allowed is http://HOST:PORT");
        }
        host_ = host;
        const int port = evhttp_uri_get_port(uri_.get());
        port_ = port < 0 ? default_port : port;
        std::string below = evhttp_uri_get_path(uri_.get());
        while (!below.empty() && below.back() == '/') below.pop_back();
        path_ = below + "/v1/traces";
    }

    bool post(const std::string& body) {
        if (!connection_) {
            const auto port = static_cast<std::uint16_t>(port_);
            connection_.reset(evhttp_connection_base_new(base_.get(), nullptr, host_.c_str(), port));
            evhttp_connection_set_timeout(connection_.get(), timeout_s);
        }
        Outcome outcome{base_.get(), 0};
        evhttp_request* const request = evhttp_request_new(finish, &outcome);
        evkeyvalq* const headers = evhttp_request_get_output_headers(request);
        evhttp_add_header(headers, "Host", host_.c_str());
        evhttp_add_header(headers, "Content-Type", "application/json");
        evbuffer_add(evhttp_request_get_output_buffer(request), body.data(), body.size());
        if (evhttp_make_request(connection_.get(), request, EVHTTP_REQ_POST, path_.c_str()) == 0) {
            event_base_dispatch(base_.get());
        }
        const bool taken = outcome.status >= 200 && outcome.status < 300;
        if (!taken) connection_.reset();  // the next try connects anew
        return taken;
    }

private:
    struct Outcome {
        event_base* base;
        int status;  // 0: no reply
    };

    static void finish(evhttp_request* request, void* into) {
        auto* const outcome = static_cast<Outcome*>(into);
        outcome->status = request == nullptr ? 0 : evhttp_request_get_response_code(request);
        event_base_loopbreak(outcome->base);  // the kept connection would hold the loop open
    }

    std::unique_ptr<evhttp_uri, void (*)(evhttp_uri*)> uri_;
    std::unique_ptr<event_base, void (*)(event_base*)> base_;
    std::unique_ptr<evhttp_connection, void (*)(evhttp_connection*)> connection_;
    std::string host_, path_;
    int port_ = default_port;
};

}  // namespace

Send http_sender(const std::string& endpoint) {
    const auto client = std::make_shared<Client>(endpoint);
    return [client](const std::string& body) { return client->post(body); };
}

}  // namespace search
