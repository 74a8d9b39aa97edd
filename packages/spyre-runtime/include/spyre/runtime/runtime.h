// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "spyre/layout/layout.h"
#include "spyre/program/link.h"
#include "spyre/runtime/errors.h"

/// The torch-free runtime: everything above the driver ABI that has state. All state lives in
/// libspyre_runtime. Errors are exceptions of errors.h, each of which maps to one Python exception.
/// Functions may be called from any thread and never need the GIL.
namespace spyre {
namespace SPYRE_RUNTIME_API runtime {

// --- devices -------------------------------------------------------------------------------------

/// Visible devices: software devices present (1, or AIU_WORLD_SIZE) filtered by SPYRE_DEVICES.
/// Reads and checks the environment on each call until a device is opened; opens nothing.
int device_count();
/// Opens the device on first use. Throws IndexError naming the index and the count.
void ensure_open(int device);
bool is_initialized();  ///< whether any device has been opened in this process
/// Waits for all queued work and refuses any more. To be called before static destructors run: work
/// may use host memory and libraries, oneDNN among them, that go away with these.
void shut_down() noexcept;
void check_usable();   ///< throws after shut_down() and in a bad fork
bool in_bad_fork();    ///< whether this process was forked from one with an open device
int current_device();  ///< of this thread
void set_current_device(int device);  ///< range-checked

struct DeviceProperties {
  std::string name;
  int cores;  ///< SENCORES
  int64_t memory_bytes, lx_bytes, max_allocation_bytes;
  std::string driver, driver_version;
};
const DeviceProperties& properties(int device);

// --- streams and events --------------------------------------------------------------------------

/// Streams are (device, id): id 0 default, 1-32 low priority, 33-64 high priority.
struct StreamId {
  int device = 0;
  int id = 0;
  bool operator==(const StreamId&) const = default;
};
StreamId stream_from_pool(int device, int priority);  ///< round robin
StreamId current_stream(int device);                  ///< of this thread
StreamId exchange_stream(StreamId stream);            ///< makes it current, returns the former one
bool query(StreamId stream);
void synchronize(StreamId stream);  ///< blocks; throws an error that the stream's work met
void synchronize_device(int device);

class Event {  // RAII over a driver event
 public:
  explicit Event(int device, bool is_timed = true);
  ~Event();
  void record(StreamId stream);
  void block(StreamId stream) const;
  bool query() const;
  void synchronize() const;
  int64_t elapsed_ns(const Event& end) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// --- memory --------------------------------------------------------------------------------------

/// A layout and a dtype that have an id: equal ids <=> equal (layout, dtype). Lives as long as the
/// process.
struct InternedLayout {
  layout::Layout layout;
  layout::HostDtype dtype{};
  uint64_t id = 0;
  int64_t physical_bytes = 0;  ///< layout.device_bytes()
};
/// Finds or makes the entry. A repeated one costs a hash and a comparison.
const InternedLayout& intern(const layout::Layout& layout, layout::HostDtype dtype);
/// The same for Layout::row_major(size, dtype), without making the layout if the entry is there.
const InternedLayout& intern_row_major(const int64_t* size, size_t rank, layout::HostDtype dtype);
/// The same for Layout::strided(size, stride, dtype).
const InternedLayout& intern_strided(const int64_t* size, const int64_t* stride, size_t rank,
                                     layout::HostDtype dtype);

/// Refers to an interned layout; converts to const layout::Layout&, and `ref->` reaches its
/// members.
class LayoutRef {
 public:
  LayoutRef() = default;
  explicit LayoutRef(const layout::Layout& layout) : layout_(&layout) {}
  operator const layout::Layout&() const { return *layout_; }
  const layout::Layout& operator*() const { return *layout_; }
  const layout::Layout* operator->() const { return layout_; }

 private:
  const layout::Layout* layout_ = nullptr;
};

/// A block of device memory and what lies in it. The *handle* range [handle, handle +
/// logical_bytes) is reserved address space without access rights: PyTorch's data pointers point
/// into it, one address per
/// **host** byte, so offsets and byte views add up, and a stray read faults at once. The device
/// bytes live elsewhere, at device_address.
struct Allocation {
  uint64_t handle = 0;
  uint64_t device_address = 0;
  int64_t logical_bytes = 0;   ///< numel * host itemsize: what StorageImpl::nbytes reports
  int64_t physical_bytes = 0;  ///< whole sticks
  int device = 0;
  StreamId stream;  ///< the stream it was allocated on
  LayoutRef layout;
  layout::HostDtype dtype{};  ///< what the elements are on the host side
  uint64_t layout_id = 0;     ///< equal ids <=> equal (layout, dtype); interned, never reused
  bool raw = false;           ///< untyped bytes, not yet given a layout by a typed use
};

/// Stream-ordered caching allocator. Memory freed on a stream is reused by later allocations of
/// that stream at once; use on another stream is recorded by launch() and transfer(), and then
/// reuse waits for that stream. On exhaustion: returns cached memory to the device, retries, then
/// throws OutOfMemoryError with asked, free, cached and total bytes.
Allocation* allocate(StreamId stream, const layout::Layout& layout, layout::HostDtype dtype,
                     int64_t logical_bytes);
Allocation* allocate(StreamId stream, const InternedLayout& layout, int64_t logical_bytes);
void free(Allocation* allocation);
/// The allocation that an address inside a handle range, or just past its end, belongs to, or
/// nullptr. Lock-free, a few nanoseconds. Never finds an allocation that was freed.
Allocation* find(const void* address);
/// Gives an allocation another layout of the same logical bytes; contents become unspecified. The
/// handle stays, the device address may change.
void relayout(Allocation* allocation, const layout::Layout& layout, layout::HostDtype dtype);
/// Notes that work queued on `stream` so far uses the allocation: its memory is not reused before
/// that work is done. launch() and the transfers do this by themselves (torch.Tensor.record_stream
/// asks for it).
void record_use(Allocation* allocation, StreamId stream);
void empty_cache();
/// A level that rises and falls.
struct Gauge {
  int64_t current = 0;
  int64_t peak = 0;    ///< since the last reset of the peaks
  int64_t raised = 0;  ///< sum of all that was added since the last reset of the totals
  int64_t lowered = 0;

  void raise(int64_t amount) {
    current += amount;
    raised += amount;
    if (current > peak) peak = current;
  }
  void lower(int64_t amount) {
    current -= amount;
    lowered += amount;
  }
};
struct MemoryStats {
  Gauge blocks;     ///< allocations that live
  Gauge allocated;  ///< their bytes
  Gauge reserved;   ///< bytes taken from the device, in use or cached
  int64_t retries = 0;
  int64_t ooms = 0;
};
MemoryStats memory_stats(int device);
void reset_peak_memory_stats(int device);
void reset_accumulated_memory_stats(int device);
void memory_info(int device, int64_t* free_bytes, int64_t* total_bytes);

// --- transfers -----------------------------------------------------------------------------------

/// Strided host array <-> strided view of an allocation, converting format and layout in one pass.
/// Element counts and strides are host elements of `dtype` on both sides; `allocation->dtype` must
/// be `dtype`. Views that no loop nest fits are staged through a dense buffer. If `blocking`,
/// returns when done; otherwise the caller keeps host memory alive until the stream gets there.
struct HostView {
  void* data;
  std::vector<int64_t> stride;
};
void copy_to_device(StreamId stream, Allocation* to, int64_t storage_offset,
                    const std::vector<int64_t>& size, const std::vector<int64_t>& stride,
                    const HostView& from, bool blocking);
void copy_to_host(StreamId stream, const Allocation* from, int64_t storage_offset,
                  const std::vector<int64_t>& size, const std::vector<int64_t>& stride,
                  const HostView& to, bool blocking);
/// Device bytes, unchanged; both allocations on one device and with equal physical sizes.
void copy_bytes(StreamId stream, Allocation* to, const Allocation* from);

// --- programs ------------------------------------------------------------------------------------

/// A portable program and the bound forms made of it so far, by (layout ids, offsets, symbols).
/// Thread-safe.
class Executable {
 public:
  explicit Executable(program::Program program);
  ~Executable();
  struct Arg {
    Allocation* allocation;
    int64_t storage_offset;  ///< host elements
  };
  /// Links on first use of this combination, then queues one run.
  void launch(StreamId stream, const Arg* args, size_t arg_count, const int64_t* symbols,
              size_t symbol_count);
  const program::Program& program() const;
  /// Text of the bound form for these arguments.
  std::string print_bound(const Arg* args, size_t arg_count, const int64_t* symbols,
                          size_t symbol_count);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Counters that tests and reports read.
struct ProgramStats {
  int64_t programs, links, launches;
};
ProgramStats program_stats();

}  // namespace SPYRE_RUNTIME_API runtime
}  // namespace spyre
