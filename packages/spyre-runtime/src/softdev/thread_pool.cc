// SPDX-License-Identifier: Apache-2.0
#include "softdev/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace spyre::softdev {

/// A call of run(): tasks are handed out by counting up.
struct Job {
  const std::function<void(int64_t)>* task;
  int64_t count;
  std::atomic<int64_t> next{0};
  std::mutex error_mutex;
  std::exception_ptr error;
  int helpers = 0;  // threads of the pool inside work(); guarded by the pool's mutex

  void work() {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        (*task)(i);
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next.store(count);  // what is left is skipped
      }
    }
  }
};

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable wake, finished;
  std::deque<Job*> jobs;  // that may have tasks left
  bool stop = false;
  std::vector<std::thread> threads;

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return stop || !jobs.empty(); });
      if (stop) return;
      Job* job = jobs.front();
      // The next free thread looks at the next job first.
      jobs.pop_front();
      if (job->next.load(std::memory_order_relaxed) < job->count)
        jobs.push_back(job);
      else
        continue;
      ++job->helpers;
      lock.unlock();
      job->work();
      lock.lock();
      --job->helpers;
      jobs.erase(std::remove(jobs.begin(), jobs.end(), job), jobs.end());
      if (job->helpers == 0) finished.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int threads)
    : threads_(threads > 0 ? threads : usable_cpus()), state_(std::make_unique<State>()) {
  for (int i = 1; i < threads_; ++i) state_->threads.emplace_back([this] { state_->serve(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  for (std::thread& t : state_->threads) t.join();
}

void ThreadPool::run(int64_t count, const std::function<void(int64_t)>& task) {
  if (count <= 0) return;
  if (count == 1 || threads_ == 1) {
    for (int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  Job job;
  job.task = &task;
  job.count = count;
  {
    std::lock_guard lock(state_->mutex);
    state_->jobs.push_back(&job);
  }
  if (count > 2)
    state_->wake.notify_all();
  else
    state_->wake.notify_one();
  job.work();
  // Every task is taken now; helpers may still be inside theirs.
  std::unique_lock lock(state_->mutex);
  state_->jobs.erase(std::remove(state_->jobs.begin(), state_->jobs.end(), &job),
                     state_->jobs.end());
  state_->finished.wait(lock, [&] { return job.helpers == 0; });
  lock.unlock();
  if (job.error) std::rethrow_exception(job.error);
}

int ThreadPool::usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace spyre::softdev
