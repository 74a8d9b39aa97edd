// SPDX-License-Identifier: Apache-2.0
#include "softdev/stream.h"

#include <chrono>
#include <cstring>
#include <optional>

namespace spyre::softdev {
namespace {

using Clock = std::chrono::steady_clock;

/// Up to this estimate a task is run by its submitter: about what it costs to wake a thread.
constexpr int64_t kInPlaceNs = 30'000;
/// How long threads look for work, or for its end, before they sleep.
constexpr auto kSpin = std::chrono::microseconds(30);
/// Submitters beyond this many queued tasks help out first, until there is room for some: not
/// longer, because Python sees an interrupt only between two submissions.
constexpr uint64_t kMaxQueued = 8192;
constexpr uint64_t kRoom = 64;
/// Copies move at least 8 bytes per nanosecond and thread.
constexpr int64_t kBytesPerNs = 8;
/// Work of this many bytes is worth a second thread.
constexpr int64_t kParallelBytes = 256 << 10;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// The device memory that a transfer covers.
Range device_range(const TransferTask& task) {
  int64_t low = task.device_offset, high = task.device_offset;
  for (size_t i = 0; i < task.loops.size(); ++i) {
    const layout::TransferLoop& loop = task.loops.data()[i];
    const int64_t reach = (loop.extent - 1) * loop.device_stride;
    (reach < 0 ? low : high) += reach;
  }
  const int64_t bits = layout::format_info(task.format).bits;
  const auto base = reinterpret_cast<uintptr_t>(task.device);
  return {base + static_cast<uintptr_t>(low * bits / 8),
          base + static_cast<uintptr_t>(((high + 1) * bits + 7) / 8)};
}

/// Tells the cache of packed operands of a write when it is over, however it ends.
class Write {
 public:
  Write(PackedCache& packed, Range range) : packed_(packed), range_(range) {}
  ~Write() { packed_.drop(range_); }
  Write(const Write&) = delete;
  Write& operator=(const Write&) = delete;

 private:
  PackedCache& packed_;
  const Range range_;
};

/// Looks for `condition` for a short while; true if it came about.
template <class Condition>
bool spin_until(Condition&& condition) {
  static const bool is_worth_it = ThreadPool::usable_cpus() > 1;
  if (!is_worth_it) return condition();
  const auto end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
      pause();
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace

Stream::~Stream() {
  wait_for(submitted_.load());
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  work_here_.notify_all();
  if (worker_.joinable()) worker_.join();
  if (scratch_ != 0) memory_.free(scratch_);
}

// --- submission ----------------------------------------------------------------------------------

/// Runs run() here if the stream is idle and the work is small, otherwise queues make().
template <class Run, class Make>
void Stream::submit(int64_t cost_ns, Run&& run, Make&& make) {
  if (cost_ns <= kInPlaceNs && take_turn_if_idle()) {
    submitted_.fetch_add(1);
    run_guarded(run);
    complete_one();
    end_turn();
    return;
  }
  enqueue(make());
}

bool Stream::take_turn_if_idle() {
  uint64_t idle = 0;
  return state_.compare_exchange_strong(idle, kTurn, std::memory_order_acq_rel);
}

bool Stream::take_turn_if_queued() {
  uint64_t state = state_.load(std::memory_order_acquire);
  while (state != 0 && (state & kTurn) == 0) {
    if (state_.compare_exchange_weak(state, state | kTurn, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void Stream::end_turn() {
  if (state_.fetch_and(~kTurn, std::memory_order_acq_rel) != kTurn) wake_worker();
}

void Stream::wake_worker() {
  bool is_asleep;
  {
    const std::lock_guard lock(mutex_);
    is_asleep = worker_sleeps_;
  }
  if (is_asleep) work_here_.notify_one();
}

void Stream::enqueue(Task task) {
  if (state_.load(std::memory_order_relaxed) > kMaxQueued * kQueued) {
    // Every event that queued work waits for was recorded before, so this ends.
    wait_for(submitted_.load() - (kMaxQueued - kRoom));
  }
  bool is_asleep;
  {
    const std::lock_guard lock(mutex_);
    if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
    queue_.push_back(std::move(task));
    submitted_.fetch_add(1);
    state_.fetch_add(kQueued, std::memory_order_acq_rel);
    is_asleep = worker_sleeps_;
  }
  if (is_asleep) work_here_.notify_one();
}

// --- execution -----------------------------------------------------------------------------------

void Stream::work() {
  while (true) {
    if (take_turn_if_queued()) {
      drain(UINT64_MAX);
      continue;
    }
    const auto has_turn_to_take = [this] {
      const uint64_t state = state_.load(std::memory_order_acquire);
      return state != 0 && (state & kTurn) == 0;
    };
    if (spin_until(has_turn_to_take)) continue;
    std::unique_lock lock(mutex_);
    worker_sleeps_ = true;
    work_here_.wait(lock, [&] { return stops_ || has_turn_to_take(); });
    worker_sleeps_ = false;
    if (stops_) return;
  }
}

/// Runs queued tasks until none is left or `until` tasks are complete. Needs the turn, and ends it.
void Stream::drain(uint64_t until) {
  while (completed_.load(std::memory_order_relaxed) < until) {
    std::unique_lock lock(mutex_);
    if (queue_.empty()) break;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    run_guarded([&] { std::visit([this](const auto& work) { run(work); }, task); });
    state_.fetch_sub(kQueued, std::memory_order_acq_rel);
    complete_one();
  }
  end_turn();
}

void Stream::complete_one() {
  completed_.fetch_add(1);  // sequentially consistent, with waiters_: one side sees the other
  if (waiters_.load() != 0) {
    {
      const std::lock_guard lock(mutex_);
    }
    work_done_.notify_all();
  }
}

void Stream::wait_for(uint64_t ticket) {
  const auto is_done = [&] { return completed_.load() >= ticket; };
  while (!is_done()) {
    if (take_turn_if_queued()) {
      drain(ticket);
      continue;
    }
    if (spin_until(is_done)) return;
    std::unique_lock lock(mutex_);
    waiters_.fetch_add(1);
    work_done_.wait(lock, is_done);
    waiters_.fetch_sub(1);
  }
}

spyre_status Stream::synchronize(std::string* message) {
  wait_for(submitted_.load());
  return error_->take(message);
}

template <class Body>
void Stream::run_guarded(Body&& body) noexcept {
  try {
    body();
  } catch (...) {
    std::string message;
    const spyre_status status = current_exception_status(&message);
    error_->keep(status, std::move(message));
  }
}

// --- tasks ---------------------------------------------------------------------------------------

void Stream::launch(const std::shared_ptr<const VmProgram>& program, const uint64_t* addresses,
                    size_t count) {
  submit(
      program->cost_ns(), [&] { run_program(*program, addresses, count); },
      [&] { return Task(LaunchTask{program, {addresses, count}}); });
}

void Stream::transfer(const TransferTask& task, int64_t bytes) {
  submit(bytes / kBytesPerNs, [&] { run(task); }, [&] { return Task(task); });
}

void Stream::copy(const CopyTask& task) {
  submit(
      static_cast<int64_t>(task.bytes) / kBytesPerNs, [&] { run(task); },
      [&] { return Task(task); });
}

void Stream::record(std::shared_ptr<Point> point) {
  submit(0, [&] { point->reach(); }, [&] { return Task(RecordTask{point}); });
}

void Stream::wait(std::shared_ptr<Point> point) {
  if (point->is_reached()) return;
  enqueue(WaitTask{std::move(point)});
}

void Stream::run(const LaunchTask& task) {
  run_program(*task.program, task.addresses.data(), task.addresses.size());
}

void Stream::run_program(const VmProgram& program, const uint64_t* addresses, size_t count) {
  constexpr size_t kInlineArgs = 32;
  std::array<void*, kInlineArgs> inline_args;
  std::vector<void*> heap_args;
  void** args = inline_args.data();
  if (count > kInlineArgs) {
    heap_args.resize(count);
    args = heap_args.data();
  }
  for (size_t i = 0; i < count; ++i) args[i] = reinterpret_cast<void*>(addresses[i]);
  const uint64_t needed = program.scratch_bytes();
  if (needed > scratch_bytes_) {
    if (scratch_ != 0) memory_.free(scratch_);
    scratch_ = scratch_bytes_ = 0;
    const uint64_t bytes = (needed + 127) / 128 * 128;
    scratch_ = memory_.alloc(bytes);
    scratch_bytes_ = bytes;
  }
  program.run(args, reinterpret_cast<void*>(scratch_), pool_, memory_.packed());
}

void Stream::run(const TransferTask& task) {
  std::optional<Write> write;
  if (task.to_device) write.emplace(memory_.packed(), device_range(task));
  layout::ParallelFor parallel;
  if (pool_.threads() > 1) {
    parallel = [this](int64_t count, int64_t grain,
                      const std::function<void(int64_t, int64_t)>& body) {
      const int64_t threads = pool_.threads();
      const int64_t parts = std::min<int64_t>(threads * 4, count / std::max<int64_t>(grain, 1));
      if (parts <= 1) {
        body(0, count);
        return;
      }
      pool_.run(parts,
                [&](int64_t part) { body(count * part / parts, count * (part + 1) / parts); });
    };
  }
  layout::run_transfer(task.loops.data(), task.loops.size(), task.dtype, task.format, task.host,
                       task.device, task.device_offset, task.to_device, parallel);
}

void Stream::run(const CopyTask& task) {
  const Write write(memory_.packed(), {task.to, task.to + task.bytes});
  auto* to = reinterpret_cast<char*>(task.to);
  const auto* from = reinterpret_cast<const char*>(task.from);
  const auto bytes = static_cast<int64_t>(task.bytes);
  const bool is_disjoint = task.to + task.bytes <= task.from || task.from + task.bytes <= task.to;
  if (pool_.threads() == 1 || bytes < 2 * kParallelBytes || !is_disjoint) {
    std::memmove(to, from, task.bytes);
    return;
  }
  const int64_t parts = std::min<int64_t>(pool_.threads() * 4, bytes / kParallelBytes);
  const int64_t step = (bytes / parts + 127) / 128 * 128;
  pool_.run(parts, [&](int64_t part) {
    const int64_t begin = std::min(bytes, part * step);
    const int64_t end = part + 1 == parts ? bytes : std::min(bytes, begin + step);
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

void Stream::run(const RecordTask& task) { task.point->reach(); }

void Stream::run(const WaitTask& task) {
  if (!spin_until([&] { return task.point->is_reached(); })) task.point->wait();
}

}  // namespace spyre::softdev
