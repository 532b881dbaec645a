// tailor-search: serves the index until SIGTERM or SIGINT.
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "service.h"

namespace search {
namespace {

constexpr std::uint16_t client_port = 8080, admin_port = 9100;

void serve(const sigset_t& stopping) {
    const Options options = read_options(environment, usable_cpus());
    SearchService service(options);
    using namespace std::placeholders;
    HttpServer clients(client_port, std::bind(&SearchService::handle, &service, _1, _2));
    HttpServer admin(admin_port, std::bind(&SearchService::administer, &service, _1, _2));
    clients.start();
    admin.start();
    std::cout << "serving with " << options.threads << " threads, a queue of " << options.queue_length << " ("
              << name_of(options.queue_order) << ") and a cache of " << options.cache_entries << std::endl;
    int signal = 0;
    sigwait(&stopping, &signal);
    service.close();
    clients.stop();
    admin.stop();
}

}  // namespace
}  // namespace search

int main() {
    // Blocked before any thread starts, so that only sigwait sees them.
    sigset_t stopping;
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGTERM);
    sigaddset(&stopping, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stopping, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    try {
        search::serve(stopping);
        return EXIT_SUCCESS;
    } catch (const Xapian::Error& error) {
        std::cerr << "tailor-search: " << error.get_description() << '\n';
    } catch (const std::exception& error) {
        std::cerr << "tailor-search: " << error.what() << '\n';
    }
    return EXIT_FAILURE;
}
