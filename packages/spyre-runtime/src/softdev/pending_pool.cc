// SPDX-License-Identifier: Apache-2.0
#include "softdev/thread_pool.h"

// In place of the thread pool until it is here: one thread, the caller.
namespace spyre::softdev {
struct ThreadPool::State {};
ThreadPool::ThreadPool(int) : threads_(1) {}
ThreadPool::~ThreadPool() = default;
void ThreadPool::run(int64_t count, const std::function<void(int64_t)>& task) {
  for (int64_t i = 0; i < count; ++i) task(i);
}
int ThreadPool::usable_cpus() { return 1; }
}  // namespace spyre::softdev
