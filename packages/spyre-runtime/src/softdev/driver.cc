// SPDX-License-Identifier: Apache-2.0
// The software device's function table: arguments are checked here, work is done by the classes
// beside.
#include "spyre/driver/driver.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "softdev/memory.h"
#include "softdev/status.h"
#include "softdev/stream.h"
#include "spyre/runtime/version.h"

using namespace spyre::softdev;  // NOLINT: the ABI's structs below are global by their nature
namespace layout = spyre::layout;

struct spyre_device_t {
  spyre_device_t(uint64_t memory_bytes, uint64_t max_allocation_bytes, ThreadPool& shared_pool)
      : memory(memory_bytes, max_allocation_bytes, shared_pool), pool(shared_pool) {}
  Memory memory;
  ThreadPool& pool;
};

struct spyre_stream_t {
  explicit spyre_stream_t(spyre_device& owner) : device(owner), stream(owner.memory, owner.pool) {}
  spyre_device& device;
  Stream stream;
};

struct spyre_event_t {
  explicit spyre_event_t(spyre_device& owner) : device(owner) {}
  spyre_device& device;
  Event event;
};

struct spyre_program_t {
  spyre_device& device;
  std::shared_ptr<const VmProgram> program;
};

namespace {

constexpr uint64_t kNominalMemory = uint64_t{128} << 30;
constexpr uint64_t kLxBytes = 2 << 20;
constexpr uint32_t kCores = 32;
constexpr int kMaxDevices = 64;
constexpr uint64_t kSegments = 8;  ///< of a partition's memory

ThreadPool& shared_pool() {
  static auto* pool = new ThreadPool();  // its threads live until the process ends
  return *pool;
}

[[noreturn]] void fail(const std::string& message) {
  throw DriverError(SPYRE_INVALID_ARGUMENT, message);
}

template <class T>
T& required(T* pointer, const char* what) {
  if (pointer == nullptr) fail(std::string(what) + " is a null pointer");
  return *pointer;
}

void require_address(const void* pointer, const char* what) {
  if (pointer == nullptr) fail(std::string(what) + " is a null pointer");
}

uint32_t present_devices() {
  const char* text = std::getenv("AIU_WORLD_SIZE");
  if (text == nullptr || *text == '\0') return 1;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*end != '\0' || count < 1 || count > kMaxDevices) {
    fail("environment variable AIU_WORLD_SIZE is \"" + std::string(text) +
         "\", but must be a number of devices from 1 to " + std::to_string(kMaxDevices));
  }
  return static_cast<uint32_t>(count);
}

// --- devices -------------------------------------------------------------------------------------

spyre_status device_count(uint32_t* count, char* error) {
  return guarded(error, [&] { required(count, "count") = present_devices(); });
}

spyre_status device_open(uint32_t index, const spyre_device_options* options, spyre_device** out,
                         char* error) {
  return guarded(error, [&] {
    required(out, "out");
    const uint32_t count = present_devices();
    if (index >= count) {
      fail("device " + std::to_string(index) + " is out of range: there are " +
           std::to_string(count));
    }
    bool is_partition = false;
    if (options != nullptr) {
      constexpr size_t kNeeded =
          offsetof(spyre_device_options, partition) + sizeof(options->partition);
      if (options->struct_size >= kNeeded) {
        if (options->partition > 1)
          fail("partition is " + std::to_string(options->partition) + ", not 0 or 1");
        is_partition = options->partition == 1;
      }
    }
    constexpr uint64_t kStick = 128;
    uint64_t memory = std::min(kNominalMemory, Memory::host_total_bytes());
    uint64_t segment = memory;
    if (is_partition) {
      memory /= 4;
      segment = memory / kSegments;
    }
    *out = new spyre_device_t(memory / kStick * kStick, segment / kStick * kStick, shared_pool());
  });
}

void device_close(spyre_device* device) { delete device; }

spyre_status device_properties(spyre_device* device, spyre_device_properties* out, char* error) {
  return guarded(error, [&] {
    spyre_device& owner = required(device, "device");
    if (required(out, "properties").struct_size < sizeof(spyre_device_properties)) {
      fail("properties has " + std::to_string(out->struct_size) + " bytes, but ABI 1.0 needs " +
           std::to_string(sizeof(spyre_device_properties)));
    }
    snprintf(out->name, sizeof(out->name), "Spyre (software device)");
    out->cores = kCores;
    out->memory_bytes = owner.memory.total_bytes();
    out->lx_bytes = kLxBytes;
    out->max_allocation_bytes = owner.memory.max_allocation_bytes();
    out->stick_bytes = static_cast<uint32_t>(layout::kStickBytes);
    out->host_threads = static_cast<uint32_t>(owner.pool.threads());
  });
}

// --- memory --------------------------------------------------------------------------------------

spyre_status memory_alloc(spyre_device* device, uint64_t bytes, uint64_t* address, char* error) {
  return guarded(error, [&] {
    required(address, "address") = required(device, "device").memory.alloc(bytes);
  });
}

void memory_free(spyre_device* device, uint64_t address) {
  if (device != nullptr) device->memory.free(address);
}

spyre_status memory_info(spyre_device* device, uint64_t* free_bytes, uint64_t* total_bytes,
                         char* error) {
  return guarded(error, [&] {
    const Memory& memory = required(device, "device").memory;
    required(free_bytes, "free_bytes") = memory.free_bytes();
    required(total_bytes, "total_bytes") = memory.total_bytes();
  });
}

// --- streams -------------------------------------------------------------------------------------

spyre_status stream_create(spyre_device* device, int32_t /*priority*/, spyre_stream** out,
                           char* error) {
  return guarded(error,
                 [&] { required(out, "out") = new spyre_stream_t(required(device, "device")); });
}

void stream_destroy(spyre_stream* stream) { delete stream; }

spyre_status stream_query(spyre_stream* stream, char* error) {
  return guarded(error, [&] {
    return required(stream, "stream").stream.is_idle() ? SPYRE_OK : SPYRE_NOT_READY;
  });
}

spyre_status stream_synchronize(spyre_stream* stream, char* error) {
  return guarded(error, [&] {
    std::string message;
    const spyre_status status = required(stream, "stream").stream.synchronize(&message);
    if (status != SPYRE_OK) write_error(error, message);
    return status;
  });
}

// --- events --------------------------------------------------------------------------------------

spyre_status event_create(spyre_device* device, spyre_event** out, char* error) {
  return guarded(error,
                 [&] { required(out, "out") = new spyre_event_t(required(device, "device")); });
}

void event_destroy(spyre_event* event) { delete event; }

void check_one_device(const spyre_device& event, const spyre_device& stream) {
  if (&event != &stream) fail("the event and the stream belong to different devices");
}

spyre_status event_record(spyre_event* event, spyre_stream* stream, char* error) {
  return guarded(error, [&] {
    check_one_device(required(event, "event").device, required(stream, "stream").device);
    auto point = std::make_shared<Point>(stream->stream.error());
    stream->stream.record(point);
    event->event.set_point(std::move(point));
  });
}

spyre_status event_wait(spyre_event* event, spyre_stream* stream, char* error) {
  return guarded(error, [&] {
    check_one_device(required(event, "event").device, required(stream, "stream").device);
    if (auto point = event->event.point()) stream->stream.wait(std::move(point));
  });
}

spyre_status event_query(spyre_event* event, char* error) {
  return guarded(error, [&] {
    const auto point = required(event, "event").event.point();
    return point == nullptr || point->is_reached() ? SPYRE_OK : SPYRE_NOT_READY;
  });
}

spyre_status event_synchronize(spyre_event* event, char* error) {
  return guarded(error, [&] {
    const auto point = required(event, "event").event.point();
    if (point == nullptr) return SPYRE_OK;
    point->wait();
    std::string message;
    const spyre_status status = point->error().take(&message);
    if (status != SPYRE_OK) write_error(error, message);
    return status;
  });
}

spyre_status event_elapsed_ns(spyre_event* start, spyre_event* end, int64_t* ns, char* error) {
  return guarded(error, [&] {
    const auto first = required(start, "start").event.point();
    const auto last = required(end, "end").event.point();
    required(ns, "ns");
    if (first == nullptr || last == nullptr) fail("an event was never recorded");
    if (!first->is_reached() || !last->is_reached()) return SPYRE_NOT_READY;
    *ns = last->time_ns() - first->time_ns();
    return SPYRE_OK;
  });
}

// --- work ----------------------------------------------------------------------------------------

/// Refuses a transfer that leaves its allocation. Returns the device bytes that it covers.
int64_t check_transfer(const spyre_device& device, const spyre_transfer& transfer) {
  if (transfer.host_dtype < 0 || transfer.host_dtype >= layout::kHostDtypeCount) {
    fail("host_dtype " + std::to_string(transfer.host_dtype) + " is unknown");
  }
  if (transfer.device_format < 0 || transfer.device_format >= layout::kDataFormatCount) {
    fail("device_format " + std::to_string(transfer.device_format) + " is unknown");
  }
  const auto format = static_cast<layout::DataFormat>(transfer.device_format);
  layout::require_storage(format, "a transfer");
  if (transfer.loop_count != 0) require_address(transfer.loops, "loops");
  __int128 low = transfer.device_offset;
  __int128 high = transfer.device_offset;
  __int128 count = 1;
  constexpr __int128 kLimit = __int128{1} << 62;
  for (uint32_t i = 0; i < transfer.loop_count; ++i) {
    const spyre_transfer_loop& loop = transfer.loops[i];
    if (loop.extent < 0)
      fail("loop " + std::to_string(i) + " has extent " + std::to_string(loop.extent));
    if (loop.extent == 0) return 0;
    const int64_t written = transfer.to_device != 0 ? loop.device_stride : loop.host_stride;
    if (loop.extent > 1 && written == 0) {
      fail("loop " + std::to_string(i) + " writes " + std::to_string(loop.extent) +
           " elements to one place");
    }
    const __int128 reach = static_cast<__int128>(loop.extent - 1) * loop.device_stride;
    (reach < 0 ? low : high) += reach;
    count *= loop.extent;
    if (low < -kLimit || high > kLimit || count > kLimit) fail("the transfer's loops overflow");
  }
  require_address(transfer.host, "host");
  const int bits = layout::format_info(format).bits;
  const __int128 end_bytes = ((high + 1) * bits + 7) / 8;
  const uint64_t room = device.memory.bytes_from(transfer.device_address);
  if (room == 0) fail("the transfer's device address is not device memory");
  if (low < 0 || end_bytes > static_cast<__int128>(room)) {
    fail("the transfer covers device elements " + std::to_string(static_cast<int64_t>(low)) +
         " to " + std::to_string(static_cast<int64_t>(high)) + ", but its memory ends after " +
         std::to_string(room) + " bytes");
  }
  return static_cast<int64_t>(count * bits / 8);
}

spyre_status transfer(spyre_stream* stream, const spyre_transfer* request, char* error) {
  return guarded(error, [&] {
    spyre_stream& owner = required(stream, "stream");
    constexpr size_t kNeeded =
        offsetof(spyre_transfer, device_offset) + sizeof(request->device_offset);
    if (required(request, "transfer").struct_size < kNeeded) {
      fail("transfer has " + std::to_string(request->struct_size) + " bytes, but ABI 1.0 needs " +
           std::to_string(kNeeded));
    }
    const int64_t bytes = check_transfer(owner.device, *request);
    if (bytes == 0) return;
    std::vector<layout::TransferLoop> loops;
    loops.reserve(request->loop_count);
    for (uint32_t i = 0; i < request->loop_count; ++i) {
      const spyre_transfer_loop& loop = request->loops[i];
      loops.push_back({loop.extent, loop.host_stride, loop.device_stride});
    }
    TransferTask task{static_cast<layout::HostDtype>(request->host_dtype),
                      static_cast<layout::DataFormat>(request->device_format),
                      request->to_device != 0,
                      request->host,
                      reinterpret_cast<void*>(request->device_address),
                      request->device_offset,
                      {loops.data(), loops.size()}};
    owner.stream.transfer(task, bytes);
  });
}

spyre_status memory_copy(spyre_stream* stream, uint64_t to, uint64_t from, uint64_t bytes,
                         char* error) {
  return guarded(error, [&] {
    spyre_stream& owner = required(stream, "stream");
    if (bytes == 0) return;
    for (const uint64_t address : {to, from}) {
      const uint64_t room = owner.device.memory.bytes_from(address);
      if (room < bytes) {
        fail("a copy of " + std::to_string(bytes) + " bytes leaves its memory, which has " +
             std::to_string(room) + " from there");
      }
    }
    owner.stream.copy({to, from, bytes});
  });
}

// --- programs ------------------------------------------------------------------------------------

spyre_status program_load(spyre_device* device, const void* image, size_t size, spyre_program** out,
                          char* error) {
  return guarded(error, [&] {
    spyre_device& owner = required(device, "device");
    require_address(image, "image");
    required(out, "out");
    auto program =
        std::make_unique<spyre_program_t>(spyre_program_t{owner, VmProgram::load(image, size)});
    *out = program.release();
  });
}

void program_unload(spyre_program* program) { delete program; }

spyre_status program_launch(spyre_stream* stream, spyre_program* program, const uint64_t* addresses,
                            uint32_t count, char* error) {
  return guarded(error, [&] {
    spyre_stream& owner = required(stream, "stream");
    spyre_program& loaded = required(program, "program");
    if (&owner.device != &loaded.device)
      fail("the program and the stream belong to different devices");
    const std::vector<uint64_t>& needed = loaded.program->arg_bytes();
    if (count != needed.size()) {
      fail("the program takes " + std::to_string(needed.size()) + " addresses, but was given " +
           std::to_string(count));
    }
    if (count != 0) require_address(addresses, "addresses");
    for (uint32_t i = 0; i < count; ++i) {
      if (addresses[i] == 0 || addresses[i] % 128 != 0) {
        fail("address " + std::to_string(i) + " is not the address of a stick");
      }
    }
    owner.stream.launch(loaded.program, addresses, count);
  });
}

constexpr spyre_driver_api kApi = {
    sizeof(spyre_driver_api),
    SPYRE_DRIVER_ABI_MAJOR,
    SPYRE_DRIVER_ABI_MINOR,
    "software",
    SPYRE_RUNTIME_VERSION,
    device_count,
    device_open,
    device_close,
    device_properties,
    memory_alloc,
    memory_free,
    memory_info,
    stream_create,
    stream_destroy,
    stream_query,
    stream_synchronize,
    event_create,
    event_destroy,
    event_record,
    event_wait,
    event_query,
    event_synchronize,
    event_elapsed_ns,
    transfer,
    memory_copy,
    program_load,
    program_unload,
    program_launch,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const spyre_driver_api* spyre_driver_get_api(
    uint32_t abi_major) {
  return abi_major == SPYRE_DRIVER_ABI_MAJOR ? &kApi : nullptr;
}
