// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "softdev/event.h"
#include "softdev/memory.h"
#include "softdev/status.h"
#include "softdev/thread_pool.h"
#include "softdev/vm/vm.h"
#include "spyre/layout/transfer.h"

namespace spyre::softdev {

/// A short array that lives in place.
template <class T, size_t kInline>
class ShortArray {
 public:
  ShortArray() = default;
  ShortArray(const T* values, size_t count) : count_(count) {
    if (count > kInline) {
      heap_.assign(values, values + count);
    } else {
      std::copy(values, values + count, inline_.begin());
    }
  }
  const T* data() const { return count_ > kInline ? heap_.data() : inline_.data(); }
  size_t size() const { return count_; }

 private:
  size_t count_ = 0;
  std::array<T, kInline> inline_;
  std::vector<T> heap_;
};

struct LaunchTask {
  std::shared_ptr<const VmProgram> program;
  ShortArray<uint64_t, 8> addresses;
};
struct TransferTask {
  layout::HostDtype dtype;
  layout::DataFormat format;
  bool to_device;
  void* host;
  void* device;
  int64_t device_offset;
  ShortArray<layout::TransferLoop, 5> loops;
};
struct CopyTask {
  uint64_t to, from, bytes;
};
struct RecordTask {
  std::shared_ptr<Point> point;
};
struct WaitTask {
  std::shared_ptr<Point> point;
};
using Task = std::variant<LaunchTask, TransferTask, CopyTask, RecordTask, WaitTask>;

/// An in-order queue. Whoever holds the *turn* runs work: normally the stream's own thread, started
/// by the first queued task. Two others may take the turn: a caller that submits a small task to an
/// idle stream runs it at once, since waking a thread costs more than the task; and a caller that
/// waits for the stream helps to empty its queue.
///
/// Locks: mutex_ guards the queue and is never held while a task runs; KeptError's is a leaf.
class Stream {
 public:
  Stream(Memory& memory, ThreadPool& pool) : memory_(memory), pool_(pool) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Each of these queues the task, or runs it before it returns. Errors of the work itself are
  /// kept for synchronize().
  void launch(const std::shared_ptr<const VmProgram>& program, const uint64_t* addresses,
              size_t count);
  void transfer(const TransferTask& task, int64_t bytes);
  void copy(const CopyTask& task);
  void record(std::shared_ptr<Point> point);
  void wait(std::shared_ptr<Point> point);

  bool is_idle() const {
    const uint64_t submitted = submitted_.load();
    return completed_.load() >= submitted;
  }
  const std::shared_ptr<KeptError>& error() const { return error_; }
  /// Waits for all tasks submitted so far. Returns, once, the first error since the last call.
  spyre_status synchronize(std::string* message);

 private:
  /// state_ is kTurn if somebody holds the turn, plus kQueued times the number of queued tasks, the
  /// one that runs included.
  static constexpr uint64_t kTurn = 1;
  static constexpr uint64_t kQueued = 2;

  template <class Run, class Make>
  void submit(int64_t cost_ns, Run&& run, Make&& make);
  bool take_turn_if_idle();
  bool take_turn_if_queued();
  void end_turn();
  void enqueue(Task task);
  void drain(uint64_t until);
  void complete_one();
  void wait_for(uint64_t ticket);
  void work();
  void wake_worker();

  template <class Body>
  void run_guarded(Body&& body) noexcept;
  void run(const LaunchTask& task);
  void run(const TransferTask& task);
  void run(const CopyTask& task);
  void run(const RecordTask& task);
  void run(const WaitTask& task);
  void run_program(const VmProgram& program, const uint64_t* addresses, size_t count);

  Memory& memory_;
  ThreadPool& pool_;

  std::atomic<uint64_t> state_{0};
  std::atomic<uint64_t> submitted_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<int> waiters_{0};

  std::mutex mutex_;
  std::condition_variable work_here_;  ///< for the worker
  std::condition_variable work_done_;  ///< for those who wait
  std::deque<Task> queue_;
  bool worker_sleeps_ = false;
  bool stops_ = false;
  std::thread worker_;

  const std::shared_ptr<KeptError> error_ = std::make_shared<KeptError>();

  // For the holder of the turn.
  uint64_t scratch_ = 0;
  uint64_t scratch_bytes_ = 0;
};

}  // namespace spyre::softdev
