// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

namespace spyre::softdev {

/// One recording of an event: a point in a stream. Shared by the event, the stream's queue and
/// whoever waits, so an event may be recorded anew while others still wait for its former point.
class Point {
 public:
  bool is_reached() const { return reached_.load(std::memory_order_acquire) != 0; }

  void reach() {
    time_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
                   .count();
    reached_.store(1, std::memory_order_release);
    reached_.notify_all();
  }

  void wait() const { reached_.wait(0, std::memory_order_acquire); }

  /// Only meaningful once reached.
  int64_t time_ns() const { return time_ns_; }

 private:
  std::atomic<uint32_t> reached_{0};
  int64_t time_ns_ = 0;
};

class Event {
 public:
  /// The latest recording; nullptr before the first.
  std::shared_ptr<Point> point() const {
    const std::lock_guard lock(mutex_);
    return point_;
  }
  void set_point(std::shared_ptr<Point> point) {
    const std::lock_guard lock(mutex_);
    point_ = std::move(point);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Point> point_;
};

}  // namespace spyre::softdev
