// SPDX-License-Identifier: Apache-2.0
#include "core/device.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>

#include "spyre/runtime/text.h"

namespace spyre::runtime {
namespace detail {

std::array<std::atomic<Device*>, environment::kMaxDevices> devices{};
std::atomic<bool> is_unusable{false};

namespace {

std::mutex open_mutex;
std::atomic<bool> any_open{false};
std::atomic<bool> is_bad_fork{false};
/// Driver indices of the visible devices; fixed when the first device opens, and never freed.
std::atomic<const std::vector<uint32_t>*> enumeration{nullptr};

std::vector<uint32_t> enumerate() {
  const std::optional<int> world_size = environment::world_size();
  environment::partition();  // a bad value is an error even where it makes no difference
  environment::cores();
  environment::check_log_levels();
  const DriverLibrary& library = driver();
  uint32_t count = 0;
  DriverCall call;
  call.check(library.api->device_count(&count, call));
  int present = static_cast<int>(std::min<uint32_t>(count, environment::kMaxDevices));
  if (world_size) {
    if (*world_size > present) {
      throw ValueError("environment variable AIU_WORLD_SIZE is \"" + std::to_string(*world_size) +
                       "\", but the driver \"" + library.api->name + "\" has only " +
                       std::to_string(present) + " devices");
    }
    present = *world_size;
  }
  return environment::visible_devices(present);
}

void after_fork_in_child() {
  if (any_open.load(std::memory_order_relaxed)) {
    is_bad_fork.store(true, std::memory_order_relaxed);
    is_unusable.store(true, std::memory_order_relaxed);
  }
}

/// For processes that end without a call of shut_down() before exit().
void at_exit() { shut_down(); }

[[noreturn]] void raise_bad_index(int index, size_t count) {
  throw IndexError("spyre device index " + std::to_string(index) +
                   " is out of range: " + std::to_string(count) +
                   (count == 1 ? " device is" : " devices are") + " visible");
}

}  // namespace

Device& open_device(int index) {
  const std::lock_guard lock(open_mutex);
  const std::vector<uint32_t>* visible = enumeration.load(std::memory_order_acquire);
  std::vector<uint32_t> fresh;
  if (visible == nullptr) fresh = enumerate();
  const std::vector<uint32_t>& indices = visible != nullptr ? *visible : fresh;
  if (index < 0 || static_cast<size_t>(index) >= indices.size())
    raise_bad_index(index, indices.size());
  if (Device* open = devices[index].load(std::memory_order_acquire)) return *open;

  auto opened = std::make_unique<Device>(index, indices[index]);
  if (visible == nullptr) {
    enumeration.store(new std::vector<uint32_t>(std::move(fresh)), std::memory_order_release);
    pthread_atfork(nullptr, nullptr, &after_fork_in_child);
    std::atexit(&at_exit);
    any_open.store(true);
  }
  devices[index].store(opened.get(), std::memory_order_release);
  return *opened.release();
}

void raise_unusable() {
  if (is_bad_fork.load()) {
    throw RuntimeError("cannot use spyre in process " + std::to_string(getpid()) +
                       ", forked from one that has already opened the device; start subprocesses "
                       "with the 'spawn' or 'forkserver' method of multiprocessing, or open the "
                       "device only after the fork");
  }
  throw RuntimeError("cannot use spyre while the process exits");
}

}  // namespace detail

namespace {

spyre_device* open_in_driver(const spyre_driver_api& api, uint32_t driver_index) {
  spyre_device_options options{};
  options.struct_size = sizeof(options);
  options.partition = environment::partition() == environment::Partition::kPartition ? 1 : 0;
  spyre_device* handle = nullptr;
  DriverCall call;
  call.check(api.device_open(driver_index, &options, &handle, call));
  return handle;
}

DeviceProperties read_properties(const spyre_driver_api& api, spyre_device* handle) {
  spyre_device_properties raw{};
  raw.struct_size = sizeof(raw);
  DriverCall call;
  call.check(api.device_properties(handle, &raw, call));
  raw.name[sizeof(raw.name) - 1] = '\0';
  if (raw.stick_bytes != 128) {
    throw RuntimeError("driver \"" + std::string(api.name) + "\" has sticks of " +
                       std::to_string(raw.stick_bytes) + " bytes, but this runtime needs 128");
  }
  DeviceProperties properties;
  properties.name = printable(raw.name);
  properties.cores =
      std::min<int>(environment::cores(), std::max<int>(1, static_cast<int>(raw.cores)));
  const auto as_signed = [](uint64_t bytes) {
    return static_cast<int64_t>(std::min<uint64_t>(bytes, std::numeric_limits<int64_t>::max()));
  };
  properties.memory_bytes = as_signed(raw.memory_bytes);
  properties.lx_bytes = as_signed(raw.lx_bytes);
  properties.max_allocation_bytes = as_signed(raw.max_allocation_bytes);
  properties.driver = printable(api.name);
  properties.driver_version = printable(api.version);
  return properties;
}

/// A device that cannot be used is closed again, so that the next attempt may open it.
DeviceProperties read_or_close(const spyre_driver_api& api, spyre_device* handle) {
  try {
    return read_properties(api, handle);
  } catch (...) {
    api.device_close(handle);
    throw;
  }
}

thread_local int current = 0;
thread_local std::array<uint8_t, environment::kMaxDevices> current_streams{};

}  // namespace

Device::Device(int device_index, uint32_t driver_index)
    : index(device_index),
      api(*driver().api),
      handle(open_in_driver(api, driver_index)),
      properties(read_or_close(api, handle)),
      handles(properties.memory_bytes),
      allocator(*this) {}

spyre_stream* Device::make_stream(int id) {
  const std::lock_guard lock(streams_mutex_);
  if (spyre_stream* made = streams_[id].load(std::memory_order_acquire)) return made;
  spyre_stream* made = nullptr;
  DriverCall call;
  call.check(api.stream_create(handle, id > kStreamsPerPool ? 1 : 0, &made, call));
  streams_[id].store(made, std::memory_order_release);
  return made;
}

void Device::raise_bad_stream(int id) const {
  throw IndexError("spyre stream id " + std::to_string(id) + " is out of range: ids are 0 to " +
                   std::to_string(kStreams - 1));
}

int Device::next_stream(bool high_priority) {
  std::atomic<uint32_t>& next = high_priority ? next_high_ : next_low_;
  const uint32_t turn = next.fetch_add(1, std::memory_order_relaxed) % kStreamsPerPool;
  return 1 + (high_priority ? kStreamsPerPool : 0) + static_cast<int>(turn);
}

// --- public: devices -----------------------------------------------------------------------------

int device_count() {
  if (const auto* visible = detail::enumeration.load(std::memory_order_acquire)) {
    return static_cast<int>(visible->size());
  }
  return static_cast<int>(detail::enumerate().size());
}

void ensure_open(int index) { device(index); }

bool is_initialized() { return detail::any_open.load(std::memory_order_relaxed) && !in_bad_fork(); }

void shut_down() noexcept {
  if (in_bad_fork()) return;
  detail::is_unusable.store(true);
  for (auto& entry : detail::devices) {
    Device* device = entry.load(std::memory_order_acquire);
    if (device == nullptr) continue;
    for (int id = 0; id < kStreams; ++id) {
      if (spyre_stream* stream = device->stream_if_made(id)) {
        device->api.stream_synchronize(stream, nullptr);  // nobody is left to hear of an error
      }
    }
  }
}

void check_usable() {
  if (detail::is_unusable.load(std::memory_order_relaxed)) detail::raise_unusable();
}

bool in_bad_fork() { return detail::is_bad_fork.load(std::memory_order_relaxed); }

int current_device() { return current; }

void set_current_device(int index) {
  if (device_if_open(index) == nullptr) {
    const int count = device_count();
    if (index < 0 || index >= count) detail::raise_bad_index(index, static_cast<size_t>(count));
  }
  current = index;
}

const DeviceProperties& properties(int index) { return device(index).properties; }

// --- public: streams -----------------------------------------------------------------------------

StreamId stream_from_pool(int index, int priority) {
  return {index, device(index).next_stream(priority != 0)};
}

StreamId current_stream(int index) {
  if (index < 0 || index >= environment::kMaxDevices) [[unlikely]] {
    detail::raise_bad_index(index, static_cast<size_t>(device_count()));
  }
  return {index, current_streams[static_cast<size_t>(index)]};
}

StreamId exchange_stream(StreamId stream) {
  const StreamId former = current_stream(stream.device);
  if (stream.id != former.id) device(stream.device).stream(stream.id);  // checks the id
  current_streams[static_cast<size_t>(stream.device)] = static_cast<uint8_t>(stream.id);
  return former;
}

bool query(StreamId id) {
  Device& owner = device(id.device);
  DriverCall call;
  const spyre_status status = owner.api.stream_query(owner.stream(id.id), call);
  if (status == SPYRE_NOT_READY) return false;
  call.check(status);
  return true;
}

void synchronize(StreamId id) {
  Device& owner = device(id.device);
  DriverCall call;
  call.check(owner.api.stream_synchronize(owner.stream(id.id), call));
}

void synchronize_device(int index) {
  check_usable();
  const Device* open = device_if_open(index);
  if (open == nullptr) {  // nothing was ever queued: do not open it for that
    const int count = device_count();
    if (index < 0 || index >= count) detail::raise_bad_index(index, static_cast<size_t>(count));
    return;
  }
  const Device& owner = *open;
  spyre_status first_status = SPYRE_OK;
  std::string first_message;
  for (int id = 0; id < kStreams; ++id) {
    spyre_stream* stream = owner.stream_if_made(id);
    if (stream == nullptr) continue;
    DriverCall call;
    const spyre_status status = owner.api.stream_synchronize(stream, call);
    if (status != SPYRE_OK && first_status == SPYRE_OK) {
      first_status = status;
      first_message = call.message();
    }
  }
  if (first_status != SPYRE_OK) throw_status(first_status, first_message);
}

// --- public: events ------------------------------------------------------------------------------

/// Blocks of several threads may share an event; the driver guards itself, `made` guards creation.
struct Event::Impl {
  Impl(int index, bool timed) : device_index(index), is_timed(timed) {}
  ~Impl() {
    // In a forked child or at exit the driver must not be called; the process ends soon.
    spyre_event* event = handle.load();
    if (event == nullptr || detail::is_unusable.load()) return;
    runtime::device(device_index).api.event_destroy(event);
  }
  const int device_index;
  const bool is_timed;
  std::atomic<spyre_event*> handle{nullptr};  ///< null: never recorded
  std::mutex mutex;
};

Event::Event(int device_index, bool is_timed)
    : impl_(std::make_shared<Impl>(device_index, is_timed)) {}
Event::~Event() = default;

void Event::record(StreamId stream) {
  if (stream.device != impl_->device_index) {
    throw ValueError(
        "cannot record an event of device spyre:" + std::to_string(impl_->device_index) +
        " on a stream of spyre:" + std::to_string(stream.device));
  }
  Device& owner = device(stream.device);
  DriverCall call;
  const std::lock_guard lock(impl_->mutex);
  spyre_event* event = impl_->handle.load();
  const bool is_new = event == nullptr;
  if (is_new) call.check(owner.api.event_create(owner.handle, &event, call));
  const spyre_status status = owner.api.event_record(event, owner.stream(stream.id), call);
  if (is_new && status != SPYRE_OK) owner.api.event_destroy(event);
  call.check(status);
  impl_->handle.store(event);
}

void Event::block(StreamId stream) const {
  spyre_event* event = impl_->handle.load();
  if (event == nullptr) return;  // as in CUDA: an event never recorded counts as done
  Device& owner = device(impl_->device_index);
  DriverCall call;
  if (stream.device != impl_->device_index) {
    // Drivers order streams of one device only; across devices the host waits.
    call.check(owner.api.event_synchronize(event, call));
    return;
  }
  call.check(owner.api.event_wait(event, owner.stream(stream.id), call));
}

bool Event::query() const {
  spyre_event* event = impl_->handle.load();
  if (event == nullptr) return true;
  DriverCall call;
  const spyre_status status = device(impl_->device_index).api.event_query(event, call);
  if (status == SPYRE_NOT_READY) return false;
  call.check(status);
  return true;
}

void Event::synchronize() const {
  spyre_event* event = impl_->handle.load();
  if (event == nullptr) return;
  DriverCall call;
  call.check(device(impl_->device_index).api.event_synchronize(event, call));
}

int64_t Event::elapsed_ns(const Event& end) const {
  if (!impl_->is_timed || !end.impl_->is_timed) {
    throw ValueError(
        "cannot measure the time between two events that were not both made with "
        "enable_timing=True");
  }
  spyre_event* first = impl_->handle.load();
  spyre_event* last = end.impl_->handle.load();
  if (first == nullptr || last == nullptr) {
    throw ValueError("cannot measure the time between two events before both are recorded");
  }
  if (impl_->device_index != end.impl_->device_index) {
    throw ValueError("cannot measure the time between events of two devices, spyre:" +
                     std::to_string(impl_->device_index) +
                     " and spyre:" + std::to_string(end.impl_->device_index));
  }
  int64_t ns = 0;
  DriverCall call;
  const spyre_status status =
      device(impl_->device_index).api.event_elapsed_ns(first, last, &ns, call);
  if (status == SPYRE_NOT_READY) {
    throw ValueError(
        "cannot measure the time between two events before the device has reached both; "
        "synchronize first");
  }
  call.check(status);
  return ns;
}

}  // namespace spyre::runtime
