// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "core/allocator.h"
#include "core/driver_library.h"
#include "core/environment.h"
#include "core/handle_space.h"
#include "spyre/runtime/runtime.h"

/// Lock order in libspyre_runtime, outermost first. No lock is held while another library's code
/// runs other than the driver's, and nothing here ever asks for the GIL.
///
///   1. the open mutex (device.cc)
///   2. the executables' registry, then one executable's mutex (executable.cc)
///   3. one device's allocator mutex (allocator.cc)
///   4. one device's stream table mutex (device.cc)
///   5. the layout table's mutex, the driver loader's mutex: leaves
///
/// Linking and loading of programs happen without any of them.
namespace spyre::runtime {

inline constexpr int kStreamsPerPool = 32;
inline constexpr int kStreams = 1 + 2 * kStreamsPerPool;

/// One open device. Lives until the process ends.
class Device {
 public:
  Device(int index, uint32_t driver_index);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// The driver's stream, made on first use.
  spyre_stream* stream(int id) {
    if (id < 0 || id >= kStreams) [[unlikely]]
      raise_bad_stream(id);
    spyre_stream* stream = streams_[id].load(std::memory_order_acquire);
    return stream != nullptr ? stream : make_stream(id);
  }
  /// The driver's stream, or nullptr if it was never used and so is idle.
  spyre_stream* stream_if_made(int id) const {
    return streams_[id].load(std::memory_order_acquire);
  }
  /// An id of the pool, round robin.
  int next_stream(bool high_priority);

  const int index;
  const spyre_driver_api& api;
  spyre_device* const handle;
  const DeviceProperties properties;
  HandleSpace handles;
  Allocator allocator;

 private:
  spyre_stream* make_stream(int id);
  [[noreturn]] void raise_bad_stream(int id) const;

  std::array<std::atomic<spyre_stream*>, kStreams> streams_{};
  std::mutex streams_mutex_;
  std::atomic<uint32_t> next_low_{0};
  std::atomic<uint32_t> next_high_{0};
};

namespace detail {
extern std::array<std::atomic<Device*>, environment::kMaxDevices> devices;
extern std::atomic<bool> is_unusable;  ///< forked from a process with open devices, or exiting
Device& open_device(int index);
[[noreturn]] void raise_unusable();
}  // namespace detail

/// The device, opened on first use.
inline Device& device(int index) {
  if (detail::is_unusable.load(std::memory_order_relaxed)) [[unlikely]]
    detail::raise_unusable();
  if (index >= 0 && index < environment::kMaxDevices) [[likely]] {
    if (Device* open = detail::devices[index].load(std::memory_order_acquire)) [[likely]]
      return *open;
  }
  return detail::open_device(index);
}

/// The device, or nullptr if it is not open.
inline Device* device_if_open(int index) {
  if (index < 0 || index >= environment::kMaxDevices) return nullptr;
  return detail::devices[index].load(std::memory_order_acquire);
}

/// Notes that queued work of `stream` uses the allocation.
inline void note_use(const Allocation* allocation, StreamId stream) {
  if (allocation->stream.id != stream.id) [[unlikely]]
    Allocator::record_use(allocation, stream.id);
}

}  // namespace spyre::runtime
