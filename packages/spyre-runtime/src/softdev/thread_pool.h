// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace spyre::softdev {

/// Host threads that stand in for the cores. One pool serves every stream of a device; calls from
/// several threads at once share it fairly and cannot deadlock, since a caller always works on its
/// own job.
class ThreadPool {
 public:
  /// `threads` counts the caller: a pool of 1 starts no thread. 0 means one per usable CPU.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Runs task(0) ... task(count - 1), each once, in any order and on any thread, and returns when
  /// all are done. As far as threads are free, jobs are cut alike: each thread takes the same
  /// share. The first exception that a task throws is rethrown here; later tasks may then be
  /// skipped.
  void run(int64_t count, const std::function<void(int64_t)>& task);

  /// CPUs that this process may run on.
  static int usable_cpus();

 private:
  struct State;
  int threads_;
  std::unique_ptr<State> state_;
};

}  // namespace spyre::softdev
