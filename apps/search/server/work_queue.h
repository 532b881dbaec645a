// A bounded queue with a fixed number of workers.  Load beyond the bound is refused at once, so that what was
// accepted keeps a latency that somebody still waits for.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace search {

/// Which of the waiting tasks a free worker takes: the oldest or the newest.
enum class Order { fifo, lifo };

class WorkQueue {
public:
    /// `work(worker, task)` runs on one of `workers` threads; at most `length` tasks wait.
    using Task = std::function<void(std::size_t worker)>;

    WorkQueue(std::size_t workers, std::size_t length, Order order) : length_(length), order_(order) {
        for (std::size_t worker = 0; worker < workers; ++worker) {
            threads_.emplace_back([this, worker] { serve(worker); });
        }
    }

    ~WorkQueue() { close(); }

    WorkQueue(const WorkQueue&) = delete;
    WorkQueue& operator=(const WorkQueue&) = delete;

    /// Whether `task` was accepted; false when the queue is full or closed.
    bool offer(Task task) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            // A task that a free worker takes at once does not wait, so it does not count against the bound.
            if (closed_ || waiting_.size() >= length_ + idle_) return false;
            waiting_.push_back(std::move(task));
        }
        ready_.notify_one();
        return true;
    }

    /// Finish what was accepted and stop the workers.
    void close() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            closed_ = true;
        }
        ready_.notify_all();
        for (std::thread& thread : threads_) {
            if (thread.joinable()) thread.join();
        }
    }

    /// Tasks that no worker has taken yet.
    std::size_t waiting() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return waiting_.size();
    }

    std::size_t workers() const { return threads_.size(); }
    std::size_t length() const { return length_; }
    Order order() const { return order_; }

private:
    void serve(std::size_t worker) {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            ++idle_;
            ready_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
            --idle_;
            if (waiting_.empty()) return;
            Task task = take();
            lock.unlock();
            task(worker);
            lock.lock();
        }
    }

    Task take() {
        const bool oldest = order_ == Order::fifo;
        Task task = std::move(oldest ? waiting_.front() : waiting_.back());
        oldest ? waiting_.pop_front() : waiting_.pop_back();
        return task;
    }

    const std::size_t length_;
    const Order order_;
    mutable std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<Task> waiting_;
    std::size_t idle_ = 0;
    bool closed_ = false;
    std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace search
