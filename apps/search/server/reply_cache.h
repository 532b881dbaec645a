// Replies of recent queries.  The index never changes while it is served, so a reply holds for ever; the least
// recently used one makes room.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace search {

class ReplyCache {
public:
    struct Counts {
        std::size_t hits = 0, misses = 0, entries = 0;
    };

    /// At most `capacity` replies are kept; with 0 none is.
    explicit ReplyCache(std::size_t capacity) : capacity_(capacity) {}

    std::optional<std::string> find(const std::string& query) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = places_.find(query);
        if (found == places_.end()) {
            ++misses_;
            return std::nullopt;
        }
        ++hits_;
        recent_.splice(recent_.begin(), recent_, found->second);
        return found->second->second;
    }

    void keep(const std::string& query, const std::string& reply) {
        if (capacity_ == 0) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (places_.count(query) != 0) return;  // another worker answered the same query meanwhile
        if (places_.size() == capacity_) {
            places_.erase(recent_.back().first);
            recent_.pop_back();
        }
        recent_.emplace_front(query, reply);
        places_.emplace(query, recent_.begin());
    }

    Counts counts() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return {hits_, misses_, places_.size()};
    }

    std::size_t capacity() const { return capacity_; }

private:
    using Recent = std::list<std::pair<std::string, std::string>>;

    const std::size_t capacity_;
    mutable std::mutex mutex_;
    Recent recent_;  // query and reply, the most recently used first
    std::unordered_map<std::string, Recent::iterator> places_;
    std::size_t hits_ = 0, misses_ = 0;
};

}  // namespace search
