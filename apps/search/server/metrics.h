// Counters of the server, in the text format of Prometheus.
#pragma once

#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace search {

/// Latencies in buckets whose bounds grow by the square root of two from 0.25 ms to 2.9 s.
class Histogram {
public:
    static constexpr std::size_t bounds = 28;

    static double bound_s(std::size_t bucket) { return 0.00025 * std::pow(2.0, static_cast<double>(bucket) / 2); }

    void observe(double seconds) {
        std::size_t bucket = 0;
        while (bucket < bounds && seconds > bound_s(bucket)) ++bucket;
        const std::lock_guard<std::mutex> lock(mutex_);
        ++counts_[bucket];
        sum_s_ += seconds;
    }

    /// `# TYPE`, the cumulated buckets, sum and count of `name`.
    std::string text(const std::string& name, const std::string& help) const;

private:
    mutable std::mutex mutex_;
    std::array<std::uint64_t, bounds + 1> counts_{};  // the last one: beyond every bound
    double sum_s_ = 0;
};

/// One line with its `# HELP` and `# TYPE`.  `kind`: counter or gauge.
std::string metric(const std::string& name, const std::string& kind, const std::string& help, std::uint64_t value);

}  // namespace search
