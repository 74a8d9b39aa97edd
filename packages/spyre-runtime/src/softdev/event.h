// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "spyre/driver/driver.h"

namespace spyre::softdev {

/// The first error that a stream's work met and that nobody was told of yet. Outlives the stream,
/// for the sake of its events.
class KeptError {
 public:
  void keep(spyre_status status, std::string message) {
    const std::lock_guard lock(mutex_);
    if (status_ != SPYRE_OK) return;
    status_ = status;
    message_ = std::move(message);
    is_kept_.store(true, std::memory_order_release);
  }
  /// SPYRE_OK if there is none.
  spyre_status take(std::string* message) {
    if (!is_kept_.load(std::memory_order_acquire)) return SPYRE_OK;
    const std::lock_guard lock(mutex_);
    *message = std::move(message_);
    message_.clear();
    is_kept_.store(false, std::memory_order_release);
    return std::exchange(status_, SPYRE_OK);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> is_kept_{false};
  spyre_status status_ = SPYRE_OK;
  std::string message_;
};

/// One recording of an event: a point in a stream. Shared by the event, the stream's queue and
/// whoever waits, so an event may be recorded anew while others still wait for its former point.
class Point {
 public:
  explicit Point(std::shared_ptr<KeptError> error) : error_(std::move(error)) {}
  /// Of the stream that the point lies in.
  KeptError& error() const { return *error_; }

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
  const std::shared_ptr<KeptError> error_;
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
