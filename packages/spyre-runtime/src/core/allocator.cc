// SPDX-License-Identifier: Apache-2.0
#include "core/allocator.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "core/device.h"

namespace spyre::runtime {
namespace {

constexpr int64_t kUnit = layout::kStickBytes;
constexpr int64_t kLargestSlabBlock = 256 << 10;
constexpr int64_t kLargestSlab = 2 << 20;
constexpr int64_t kSmallestSlab = 64 << 10;
constexpr int kStepsLog2 = 3;  // 8 classes to a doubling: at most an eighth is lost to rounding
constexpr int kClasses = 8 + 8 * 48;
/// A large request may take a cached block of the next classes: up to three eighths larger.
constexpr int kLargerClasses = 3;

int size_class_of(int64_t bytes) {
  const auto units = static_cast<uint64_t>((bytes + kUnit - 1) / kUnit);
  if (units <= 8) return static_cast<int>(units == 0 ? 0 : units - 1);
  const int log2 = std::bit_width(units - 1) - 1;  // 2^log2 < units <= 2^(log2 + 1), log2 >= 3
  const int shift = log2 - kStepsLog2;
  const uint64_t step = ((units - 1) >> shift) - 8;  // 0 .. 7 within the doubling
  return 8 + (log2 - 3) * 8 + static_cast<int>(step);
}

int64_t class_bytes(int size_class) {
  if (size_class < 8) return (size_class + 1) * kUnit;
  const int log2 = (size_class - 8) / 8 + 3;
  const int64_t step = (size_class - 8) % 8;
  return (8 + step + 1) * (int64_t{1} << (log2 - kStepsLog2)) * kUnit;
}

std::string in_words(int64_t bytes) {
  if (bytes < (10 << 10)) return std::to_string(bytes) + " bytes";
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  char text[48];
  snprintf(text, sizeof(text), "%.2f %s", value, kUnits[unit]);
  return text;
}

}  // namespace

/// A driver allocation cut into blocks of one class.
struct Allocator::Slab {
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t carved = 0;  ///< bytes handed out so far
  int live = 0;        ///< blocks that are not in a free list
};

struct Allocator::Block : Allocation {
  Memory memory;
  HandleSpace::Slot slot;
  Block* next = nullptr;
  /// Streams other than its own that used it since it was allocated.
  std::array<std::atomic<uint64_t>, (kStreams + 63) / 64> users{};
};

/// A freed block that streams other than its own may still use.
struct Allocator::Pending {
  Block* block;
  std::vector<spyre_event*> events;
};

struct Allocator::FreeLists {
  std::array<Block*, kClasses> heads{};
};

Allocator::Allocator(Device& device) : device_(device), free_(kStreams), open_slabs_(kClasses) {}

Allocator::~Allocator() = default;  // devices live until the process ends

void Allocator::record_use(const Allocation* allocation, int stream) {
  auto* block = static_cast<Block*>(const_cast<Allocation*>(allocation));
  block->users[static_cast<size_t>(stream) / 64].fetch_or(uint64_t{1} << (stream % 64),
                                                          std::memory_order_relaxed);
}

Allocation* Allocator::allocate(StreamId stream, const InternedLayout& layout,
                                int64_t logical_bytes) {
  if (logical_bytes < 0) {
    throw ValueError("cannot allocate " + std::to_string(logical_bytes) + " bytes on spyre");
  }
  if (stream.id < 0 || stream.id >= kStreams) device_.stream(stream.id);  // throws
  const std::lock_guard lock(mutex_);
  Block* block = take(stream.id, layout.physical_bytes, logical_bytes);
  block->device_address = block->memory.address;
  block->logical_bytes = logical_bytes;
  block->physical_bytes = layout.physical_bytes;
  block->device = device_.index;
  block->stream = stream;
  block->layout = LayoutRef(layout.layout);
  block->dtype = layout.dtype;
  block->layout_id = layout.id;
  block->raw = false;
  stats_.allocated.raise(block->physical_bytes);
  stats_.blocks.raise(1);
  device_.handles.publish(block->slot, block);
  return block;
}

void Allocator::free(Allocation* allocation) {
  auto* block = static_cast<Block*>(allocation);
  const std::lock_guard lock(mutex_);
  device_.handles.publish(block->slot, nullptr);
  stats_.allocated.lower(block->physical_bytes);
  stats_.blocks.lower(1);
  give_back(block);
}

void Allocator::relayout(Allocation* allocation, const InternedLayout& layout) {
  auto* block = static_cast<Block*>(allocation);
  const std::lock_guard lock(mutex_);
  if (layout.physical_bytes > block->memory.bytes) {
    // Another block's memory moves in; the old memory leaves with the other block, with its users.
    Block* other = take(block->stream.id, layout.physical_bytes, 0);
    other->stream = block->stream;
    std::swap(block->memory, other->memory);
    for (size_t word = 0; word < block->users.size(); ++word) {
      other->users[word].store(block->users[word].exchange(0));
    }
    block->device_address = block->memory.address;
    give_back(other);
  }
  stats_.allocated.lower(block->physical_bytes);
  stats_.allocated.raise(layout.physical_bytes);
  block->physical_bytes = layout.physical_bytes;
  block->layout = LayoutRef(layout.layout);
  block->dtype = layout.dtype;
  block->layout_id = layout.id;
}

/// A block with memory for `bytes` and a slot for `logical_bytes`, in no list.
Allocator::Block* Allocator::take(int stream, int64_t bytes, int64_t logical_bytes) {
  const int size_class = size_class_of(bytes);
  const bool is_large = class_bytes(size_class) > kLargestSlabBlock;
  Block* block = take_cached(stream, size_class, is_large);
  if (block == nullptr && !pending_.empty()) {
    poll_pending(/*wait=*/false);
    block = take_cached(stream, size_class, is_large);
  }
  if (block == nullptr) block = make_block(stream, size_class, bytes);
  if (!HandleSpace::fits(block->slot, logical_bytes)) {
    HandleSpace::Slot slot;
    try {
      slot = device_.handles.acquire(logical_bytes);
    } catch (...) {
      block->stream = {device_.index, stream};
      give_back(block);
      throw;
    }
    device_.handles.release(block->slot);
    block->slot = slot;
    block->handle = device_.handles.address(slot);
  }
  return block;
}

Allocator::Block* Allocator::take_cached(int stream, int size_class, bool is_large) {
  FreeLists* lists = free_[static_cast<size_t>(stream)].get();
  if (lists == nullptr) return nullptr;
  const int last = is_large ? std::min(size_class + kLargerClasses, kClasses - 1) : size_class;
  for (int candidate = size_class; candidate <= last; ++candidate) {
    Block*& head = lists->heads[static_cast<size_t>(candidate)];
    if (head == nullptr) continue;
    Block* block = head;
    head = block->next;
    if (block->memory.slab != nullptr) ++block->memory.slab->live;
    return block;
  }
  return nullptr;
}

Allocator::Block* Allocator::make_block(int stream, int size_class, int64_t asked) {
  auto block = std::make_unique<Block>();
  const int64_t bytes = class_bytes(size_class);
  if (!free_[static_cast<size_t>(stream)]) {  // so that free() needs no memory
    free_[static_cast<size_t>(stream)] = std::make_unique<FreeLists>();
  }
  block->slot = device_.handles.acquire(bytes);
  block->handle = device_.handles.address(block->slot);
  try {
    if (bytes <= kLargestSlabBlock) {
      block->memory = carve(size_class, bytes);
    } else {
      block->memory = {driver_alloc(bytes, asked), bytes, size_class, nullptr};
    }
  } catch (...) {
    device_.handles.release(block->slot);
    throw;
  }
  return block.release();
}

Allocator::Memory Allocator::carve(int size_class, int64_t bytes) {
  Slab*& open = open_slabs_[static_cast<size_t>(size_class)];
  if (open == nullptr || open->carved + bytes > open->bytes) {
    const int64_t room = std::clamp(bytes * 64, kSmallestSlab, kLargestSlab) / bytes * bytes;
    auto slab = std::make_unique<Slab>();
    slab->bytes = room;
    slab->address = driver_alloc(room, bytes);
    // A full slab needs no list: its blocks point to it, and release_cached() finds it through
    // them.
    open = slab.release();
  }
  const Memory memory{open->address + static_cast<uint64_t>(open->carved), bytes, size_class, open};
  open->carved += bytes;
  ++open->live;
  return memory;
}

uint64_t Allocator::driver_alloc(int64_t bytes, int64_t asked) {
  uint64_t address = 0;
  DriverCall call;
  spyre_status status =
      device_.api.memory_alloc(device_.handle, static_cast<uint64_t>(bytes), &address, call);
  if (status == SPYRE_OUT_OF_MEMORY) {
    ++stats_.retries;
    poll_pending(/*wait=*/true);
    release_cached();
    DriverCall again;
    status =
        device_.api.memory_alloc(device_.handle, static_cast<uint64_t>(bytes), &address, again);
    if (status == SPYRE_OUT_OF_MEMORY) {
      ++stats_.ooms;
      uint64_t free_bytes = 0, total_bytes = 0;
      DriverCall info;
      info.check(device_.api.memory_info(device_.handle, &free_bytes, &total_bytes, info));
      throw OutOfMemoryError(
          "spyre:" + std::to_string(device_.index) + " is out of memory: asked for " +
          in_words(asked) + ", " + in_words(static_cast<int64_t>(free_bytes)) + " of " +
          in_words(static_cast<int64_t>(total_bytes)) + " free (" + again.message() +
          "), this process has " + in_words(stats_.allocated.current) + " in tensors and " +
          in_words(std::max<int64_t>(0, stats_.reserved.current - stats_.allocated.current)) +
          " cached; free tensors, or use a smaller batch");
    }
    if (status != SPYRE_OK) again.raise(status);
  } else if (status != SPYRE_OK) {
    call.raise(status);
  }
  stats_.reserved.raise(bytes);
  return address;
}

/// Puts a block that its owner is done with where it belongs: into its stream's list, or aside
/// until the other streams that used it have passed.
void Allocator::give_back(Block* block) {
  bool is_shared = false;
  for (const auto& word : block->users) is_shared |= word.load(std::memory_order_relaxed) != 0;
  if (!is_shared) {
    push_free(block);
    return;
  }
  Pending pending{block, {}};
  for (int stream = 0; stream < kStreams; ++stream) {
    const uint64_t bit = uint64_t{1} << (stream % 64);
    if ((block->users[static_cast<size_t>(stream) / 64].load(std::memory_order_relaxed) & bit) == 0)
      continue;
    spyre_event* event = record_event(stream);
    if (event == nullptr) {
      drain(stream);
    } else {
      pending.events.push_back(event);
    }
  }
  for (auto& word : block->users) word.store(0, std::memory_order_relaxed);
  pending_.push_back(std::move(pending));
}

void Allocator::push_free(Block* block) {
  if (block->memory.slab != nullptr) --block->memory.slab->live;
  auto& lists = free_[static_cast<size_t>(block->stream.id)];
  Block*& head = lists->heads[static_cast<size_t>(block->memory.size_class)];
  block->next = head;
  head = block;
}

/// An event after the work queued on `stream` so far; nullptr if the driver could not make one.
spyre_event* Allocator::record_event(int stream) {
  spyre_event* event = nullptr;
  if (!spare_events_.empty()) {
    event = spare_events_.back();
    spare_events_.pop_back();
  } else if (device_.api.event_create(device_.handle, &event, nullptr) != SPYRE_OK) {
    return nullptr;
  }
  spyre_stream* handle = device_.stream_if_made(stream);
  if (handle == nullptr || device_.api.event_record(event, handle, nullptr) != SPYRE_OK) {
    spare_events_.push_back(event);
    return nullptr;
  }
  return event;
}

/// The way without events: waits for the stream without taking the error that it may hold.
void Allocator::drain(int stream) {
  spyre_stream* handle = device_.stream_if_made(stream);
  if (handle == nullptr) return;
  while (device_.api.stream_query(handle, nullptr) == SPYRE_NOT_READY) sched_yield();
}

/// Moves blocks that no other stream uses any more to the free lists.
void Allocator::poll_pending(bool wait) {
  size_t kept = 0;
  for (Pending& pending : pending_) {
    auto& events = pending.events;
    while (!events.empty()) {
      if (wait) {
        wait_until_reached(events.back());
      } else if (device_.api.event_query(events.back(), nullptr) == SPYRE_NOT_READY) {
        break;
      }
      spare_events_.push_back(events.back());
      events.pop_back();
    }
    if (events.empty()) {
      push_free(pending.block);
    } else {
      if (&pending_[kept] != &pending) pending_[kept] = std::move(pending);
      ++kept;
    }
  }
  pending_.resize(kept);
}

/// Waits without event_synchronize, which would take an error that the user has yet to be told.
void Allocator::wait_until_reached(spyre_event* event) const {
  auto pause = std::chrono::microseconds(10);
  while (device_.api.event_query(event, nullptr) == SPYRE_NOT_READY) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
}

/// Returns everything in the free lists to the driver, except slabs of which some block is in use.
void Allocator::release_cached() {
  // Blocks in free lists may still be used by queued work of their own stream.
  for (int stream = 0; stream < kStreams; ++stream) {
    if (!free_[static_cast<size_t>(stream)]) continue;
    if (spyre_event* event = record_event(stream)) {
      wait_until_reached(event);
      spare_events_.push_back(event);
    } else {
      drain(stream);
    }
  }
  std::vector<Slab*> empty_slabs;
  for (auto& lists : free_) {
    if (!lists) continue;
    for (Block*& head : lists->heads) {
      Block** link = &head;
      while (Block* block = *link) {
        Slab* slab = block->memory.slab;
        if (slab != nullptr && slab->live != 0) {
          link = &block->next;
          continue;
        }
        *link = block->next;
        if (slab == nullptr) {
          device_.api.memory_free(device_.handle, block->memory.address);
          stats_.reserved.lower(block->memory.bytes);
        } else {
          empty_slabs.push_back(slab);
        }
        device_.handles.release(block->slot);
        delete block;
      }
    }
  }
  std::sort(empty_slabs.begin(), empty_slabs.end());
  empty_slabs.erase(std::unique(empty_slabs.begin(), empty_slabs.end()), empty_slabs.end());
  for (Slab* slab : empty_slabs) {
    for (Slab*& open : open_slabs_) {
      if (open == slab) open = nullptr;
    }
    device_.api.memory_free(device_.handle, slab->address);
    stats_.reserved.lower(slab->bytes);
    delete slab;
  }
}

void Allocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  poll_pending(/*wait=*/true);
  release_cached();
}

MemoryStats Allocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Allocator::reset_peaks() {
  const std::lock_guard lock(mutex_);
  for (Gauge* gauge : {&stats_.blocks, &stats_.allocated, &stats_.reserved}) {
    gauge->peak = gauge->current;
  }
}

void Allocator::reset_totals() {
  const std::lock_guard lock(mutex_);
  for (Gauge* gauge : {&stats_.blocks, &stats_.allocated, &stats_.reserved}) {
    gauge->raised = 0;
    gauge->lowered = 0;
  }
  stats_.retries = 0;
  stats_.ooms = 0;
}

void Allocator::memory_info(int64_t* free_bytes, int64_t* total_bytes) const {
  const std::lock_guard lock(mutex_);
  uint64_t driver_free = 0, driver_total = 0;
  DriverCall call;
  call.check(device_.api.memory_info(device_.handle, &driver_free, &driver_total, call));
  *free_bytes = static_cast<int64_t>(driver_free);
  *total_bytes = static_cast<int64_t>(driver_total);
}

// --- public --------------------------------------------------------------------------------------

Allocation* allocate(StreamId stream, const InternedLayout& layout, int64_t logical_bytes) {
  return device(stream.device).allocator.allocate(stream, layout, logical_bytes);
}

Allocation* allocate(StreamId stream, const layout::Layout& layout, layout::HostDtype dtype,
                     int64_t logical_bytes) {
  return allocate(stream, intern(layout, dtype), logical_bytes);
}

void free(Allocation* allocation) {
  if (allocation == nullptr) return;
  // A forked child inherits tensors whose memory is its parent's; at exit the process's end frees
  // all.
  if (detail::is_unusable.load(std::memory_order_relaxed)) return;
  device(allocation->device).allocator.free(allocation);
}

Allocation* find(const void* address) {
  const auto value = reinterpret_cast<uint64_t>(address);
  for (int index = 0; index < environment::kMaxDevices; ++index) {
    Device* candidate = device_if_open(index);
    if (candidate == nullptr || !candidate->handles.contains(value)) continue;
    Allocation* allocation = candidate->handles.find(value);
    if (allocation == nullptr) return nullptr;
    return value - allocation->handle <= static_cast<uint64_t>(allocation->logical_bytes)
               ? allocation
               : nullptr;
  }
  return nullptr;
}

void relayout(Allocation* allocation, const layout::Layout& layout, layout::HostDtype dtype) {
  device(allocation->device).allocator.relayout(allocation, intern(layout, dtype));
}

void record_use(Allocation* allocation, StreamId stream) {
  Device& owner = device(allocation->device);
  if (stream.device != owner.index) {
    throw ValueError("memory of spyre:" + std::to_string(owner.index) +
                     " cannot be used on a stream of spyre:" + std::to_string(stream.device));
  }
  owner.stream(stream.id);  // checks the id
  note_use(allocation, stream);
}

void empty_cache() {
  for (int index = 0; index < environment::kMaxDevices; ++index) {
    if (device_if_open(index) != nullptr) device(index).allocator.empty_cache();
  }
}

namespace {

/// The device's allocator, or nullptr if it is not open: asking for numbers opens nothing.
Allocator* allocator_if_open(int index) {
  Device* open = device_if_open(index);
  return open == nullptr ? nullptr : &open->allocator;
}

}  // namespace

MemoryStats memory_stats(int index) {
  const Allocator* allocator = allocator_if_open(index);
  return allocator == nullptr ? MemoryStats{} : allocator->stats();
}

void reset_peak_memory_stats(int index) {
  if (Allocator* allocator = allocator_if_open(index)) allocator->reset_peaks();
}

void reset_accumulated_memory_stats(int index) {
  if (Allocator* allocator = allocator_if_open(index)) allocator->reset_totals();
}

void memory_info(int index, int64_t* free_bytes, int64_t* total_bytes) {
  device(index).allocator.memory_info(free_bytes, total_bytes);
}

}  // namespace spyre::runtime
