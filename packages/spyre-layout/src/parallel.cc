// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "spyre/layout/transfer.h"

namespace spyre::layout {

ParallelFor thread_parallel_for(int threads) {
  const int64_t limit = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  return [limit](int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
    const int64_t parts = std::clamp<int64_t>(count / std::max<int64_t>(1, grain), 1, limit);
    if (parts <= 1) {
      body(0, count);
      return;
    }
    std::mutex mutex;
    std::exception_ptr error;
    const auto run_part = [&](int64_t part) {
      try {
        body(count * part / parts, count * (part + 1) / parts);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!error) error = std::current_exception();
      }
    };
    std::vector<std::thread> workers;
    workers.reserve(static_cast<size_t>(parts - 1));
    int64_t part = 1;
    try {
      for (; part < parts; ++part) workers.emplace_back(run_part, part);
    } catch (const std::system_error&) {
      // No thread to be had: the parts that are left run here.
    }
    for (; part < parts; ++part) run_part(part);
    run_part(0);
    for (std::thread& worker : workers) worker.join();
    if (error) std::rethrow_exception(error);
  };
}

}  // namespace spyre::layout
