#include "metrics.h"

#include <sstream>

namespace search {
namespace {

std::string head(const std::string& name, const std::string& kind, const std::string& help) {
    return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n";
}

}  // namespace

std::string Histogram::text(const std::string& name, const std::string& help) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::ostringstream out;
    out << head(name, "histogram", help);
    std::uint64_t count = 0;
    for (std::size_t bucket = 0; bucket < bounds; ++bucket) {
        count += counts_[bucket];
        out << name << "_bucket{le=\"" << bound_s(bucket) << "\"} " << count << '\n';
    }
    count += counts_[bounds];
    out << name << "_bucket{le=\"+Inf\"} " << count << '\n';
    out.precision(12);
    out << name << "_sum " << sum_s_ << '\n' << name << "_count " << count << '\n';
    return out.str();
}

std::string metric(const std::string& name, const std::string& kind, const std::string& help, std::uint64_t value) {
    return head(name, kind, help) + name + " " + std::to_string(value) + "\n";
}

}  // namespace search
