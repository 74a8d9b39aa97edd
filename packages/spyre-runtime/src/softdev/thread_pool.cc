// SPDX-License-Identifier: Apache-2.0
#include "softdev/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace spyre::softdev {

namespace {

/// How long threads look for work, or for its end, before they sleep: about what it costs to wake.
constexpr auto kSpin = std::chrono::microseconds(20);

template <class Condition>
void spin_until(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (condition()) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
}

}  // namespace

/// A call of run(). Tasks are cut in one part per thread; a thread takes those of its own part, in
/// order, and then those that are left of others'. So consecutive jobs give a thread the same parts
/// of the work, whose data its caches hold.
struct Job {
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  Job(const std::function<void(int64_t)>& run, int64_t count, int threads)
      : task(run), parts(static_cast<size_t>(threads)) {
    for (int p = 0; p < threads; ++p) {
      parts[static_cast<size_t>(p)].next = count * p / threads;
      parts[static_cast<size_t>(p)].end = count * (p + 1) / threads;
    }
  }

  bool has_tasks() const {
    return std::any_of(parts.begin(), parts.end(), [](const Part& part) {
      return part.next.load(std::memory_order_relaxed) < part.end;
    });
  }

  void work(size_t thread) {
    for (size_t p = 0; p < parts.size(); ++p) work_on(parts[(thread + p) % parts.size()]);
  }

  void work_on(Part& part) {
    for (int64_t i; (i = part.next.fetch_add(1, std::memory_order_relaxed)) < part.end;) {
      try {
        task(i);
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        for (Part& p : parts) p.next.store(p.end);  // what is left is skipped
      }
    }
  }

  const std::function<void(int64_t)>& task;
  std::vector<Part> parts;
  std::mutex error_mutex;
  std::exception_ptr error;
  std::atomic<int> helpers{0};  // threads of the pool inside work(); grows under the pool's mutex
};

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable wake, finished;
  std::deque<Job*> jobs;            // that may have tasks left
  std::atomic<uint64_t> posted{0};  // jobs so far
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;

  void serve(size_t thread) {
    std::unique_lock lock(mutex);
    while (true) {
      if (jobs.empty()) {
        const uint64_t seen = posted.load();
        lock.unlock();
        spin_until([&] { return posted.load(std::memory_order_relaxed) != seen || stop.load(); });
        lock.lock();
      }
      wake.wait(lock, [&] { return stop || !jobs.empty(); });
      if (stop) return;
      Job* job = jobs.front();
      // The next free thread looks at the next job first.
      jobs.pop_front();
      if (!job->has_tasks()) continue;
      jobs.push_back(job);
      ++job->helpers;
      lock.unlock();
      job->work(thread);
      lock.lock();
      jobs.erase(std::remove(jobs.begin(), jobs.end(), job), jobs.end());
      // The last touch: a caller that sees no helper ends the job without the mutex.
      if (--job->helpers == 0) finished.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int threads)
    : threads_(threads > 0 ? threads : usable_cpus()), state_(std::make_unique<State>()) {
  for (int i = 1; i < threads_; ++i)
    state_->threads.emplace_back([this, i] { state_->serve(static_cast<size_t>(i)); });
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
  Job job(task, count, threads_);
  {
    std::lock_guard lock(state_->mutex);
    state_->jobs.push_back(&job);
    ++state_->posted;
  }
  if (count > 2)
    state_->wake.notify_all();
  else
    state_->wake.notify_one();
  job.work(0);
  // Every task is taken now; helpers may still be inside theirs.
  {
    std::lock_guard lock(state_->mutex);
    state_->jobs.erase(std::remove(state_->jobs.begin(), state_->jobs.end(), &job),
                       state_->jobs.end());
  }
  const auto is_done = [&] { return job.helpers.load() == 0; };
  spin_until(is_done);
  if (!is_done()) {
    std::unique_lock lock(state_->mutex);
    state_->finished.wait(lock, is_done);
  }
  if (job.error) std::rethrow_exception(job.error);
}

int ThreadPool::usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace spyre::softdev
