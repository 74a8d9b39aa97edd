// SPDX-License-Identifier: Apache-2.0
// What every Spyre driver must do, tested through the ABI alone: spyre_conformance /path/driver.so
// [filter] Programs are made by libspyre_runtime (text form, linked, serialised); everything else
// is plain C.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "spyre/driver/driver.h"
#include "spyre/layout/transfer.h"
#include "spyre/program/link.h"

namespace layout = spyre::layout;
namespace program = spyre::program;
using layout::DataFormat;
using layout::HostDtype;

namespace {

const spyre_driver_api* api = nullptr;
spyre_device* device = nullptr;

struct Error {
  char text[SPYRE_DRIVER_ERROR_BYTES] = "";
  operator char*() { return text; }  // NOLINT: stands in for the char* parameter
};

void ok(spyre_status status, const Error& error) {
  if (status != SPYRE_OK)
    throw check::Failure("status " + std::to_string(status) + ": " + error.text);
}
#define OK(call)       \
  do {                 \
    Error error;       \
    ok((call), error); \
  } while (false)
#define STATUS(expected, call)                                    \
  do {                                                            \
    Error error;                                                  \
    CHECK_EQ(static_cast<int>(call), static_cast<int>(expected)); \
    CHECK(error.text[0] != '\0');                                 \
  } while (false)

struct Memory {
  explicit Memory(uint64_t size) : bytes(size) {
    OK(api->memory_alloc(device, bytes, &address, error));
  }
  ~Memory() { api->memory_free(device, address); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  uint64_t address = 0;
  uint64_t bytes;
};

struct Stream {
  Stream() { OK(api->stream_create(device, 0, &handle, error)); }
  ~Stream() { api->stream_destroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void synchronize() { OK(api->stream_synchronize(handle, error)); }
  spyre_stream* handle = nullptr;
};

struct Event {
  Event() { OK(api->event_create(device, &handle, error)); }
  ~Event() { api->event_destroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  spyre_event* handle = nullptr;
};

void transfer(Stream& stream, bool to_device, HostDtype dtype, DataFormat format, void* host,
              uint64_t address, const std::vector<spyre_transfer_loop>& loops, int64_t offset = 0) {
  spyre_transfer request{};
  request.struct_size = sizeof(request);
  request.to_device = to_device ? 1 : 0;
  request.host_dtype = static_cast<int32_t>(dtype);
  request.device_format = static_cast<int32_t>(format);
  request.loop_count = static_cast<uint32_t>(loops.size());
  request.loops = loops.data();
  request.host = host;
  request.device_address = address;
  request.device_offset = offset;
  OK(api->transfer(stream.handle, &request, error));
}

/// A tensor [n] float32 on the device.
struct Vector {
  explicit Vector(int64_t size)
      : count(size),
        form(layout::Layout::row_major({size}, HostDtype::kFloat32)),
        memory(static_cast<uint64_t>(std::max<int64_t>(form.device_bytes(), 128))) {}
  void write(Stream& stream, std::vector<float>& values) {
    transfer(stream, true, HostDtype::kFloat32, DataFormat::kIeeeFp32, values.data(),
             memory.address, {{count, 1, 1}});
  }
  void read(Stream& stream, std::vector<float>& values) {
    transfer(stream, false, HostDtype::kFloat32, DataFormat::kIeeeFp32, values.data(),
             memory.address, {{count, 1, 1}});
  }
  int64_t count;
  layout::Layout form;
  Memory memory;
};

std::vector<uint8_t> image_of(const std::string& text,
                              const std::vector<const layout::Layout*>& layouts,
                              const std::vector<HostDtype>& dtypes) {
  std::vector<program::ArgBinding> bindings;
  for (size_t i = 0; i < layouts.size(); ++i) bindings.push_back({layouts[i], dtypes[i], 0});
  return program::link_to_image(program::parse(text), bindings, {}, {});
}

struct Program {
  explicit Program(const std::vector<uint8_t>& image) {
    OK(api->program_load(device, image.data(), image.size(), &handle, error));
  }
  ~Program() { api->program_unload(handle); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  spyre_program* handle = nullptr;
};

/// out = a + b over [n] float32.
std::vector<uint8_t> add_image(int64_t n) {
  const std::string size = std::to_string(n);
  const std::string buffer = " arg float32 size [" + size + "] stride [1]\n";
  const layout::Layout form = layout::Layout::row_major({n}, HostDtype::kFloat32);
  return image_of(
      "spyre.program 1\nname \"add\"\nbuffer a" + buffer + "buffer b" + buffer + "buffer c" +
          buffer + "stage \"add\"\n  loop " + size +
          "\n  access a0 a stride [1] offset 0\n  access a1 b stride [1] offset 0\n"
          "  access a2 c stride [1] offset 0\n  phase\n    %0 = load a0\n    %1 = load a1\n"
          "    %2 = add %0 %1\n    store a2 %2\n",
      {&form, &form, &form}, {HostDtype::kFloat32, HostDtype::kFloat32, HostDtype::kFloat32});
}

std::vector<float> ramp(int64_t n, float start = 0) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<float>(i);
  return values;
}

void launch_add(Stream& stream, const Program& add, Vector& a, Vector& b, Vector& c) {
  const uint64_t addresses[] = {a.memory.address, b.memory.address, c.memory.address};
  OK(api->program_launch(stream.handle, add.handle, addresses, 3, error));
}

// --- devices and memory --------------------------------------------------------------------------

TEST(table_is_complete) {
  CHECK_EQ(api->abi_major, SPYRE_DRIVER_ABI_MAJOR);
  CHECK(api->struct_size >= sizeof(spyre_driver_api));
  CHECK(api->name != nullptr && api->name[0] != '\0');
  CHECK(api->version != nullptr && api->version[0] != '\0');
}

TEST(device_index_out_of_range_is_refused) {
  uint32_t count = 0;
  OK(api->device_count(&count, error));
  CHECK(count >= 1);
  spyre_device_options options{sizeof(options), 0};
  spyre_device* opened = nullptr;
  STATUS(SPYRE_INVALID_ARGUMENT, api->device_open(count, &options, &opened, error));
}

TEST(properties_are_sane) {
  spyre_device_properties properties{};
  properties.struct_size = sizeof(properties);
  OK(api->device_properties(device, &properties, error));
  CHECK(properties.cores >= 1 && properties.cores <= 32);
  CHECK_EQ(properties.stick_bytes, 128u);
  CHECK(properties.lx_bytes > 0);
  CHECK(properties.max_allocation_bytes > 0 &&
        properties.max_allocation_bytes <= properties.memory_bytes);
  CHECK(std::memchr(properties.name, '\0', sizeof(properties.name)) != nullptr);
}

TEST(a_partition_is_smaller_and_segmented) {
  spyre_device_properties whole{}, part{};
  whole.struct_size = part.struct_size = sizeof(whole);
  spyre_device_options options{sizeof(options), 1};
  spyre_device* opened = nullptr;
  OK(api->device_open(0, &options, &opened, error));
  OK(api->device_properties(device, &whole, error));
  OK(api->device_properties(opened, &part, error));
  api->device_close(opened);
  CHECK(part.memory_bytes < whole.memory_bytes);
  CHECK(part.max_allocation_bytes <= part.memory_bytes);
}

TEST(memory_is_counted_and_bounded) {
  uint64_t before = 0, total = 0;
  OK(api->memory_info(device, &before, &total, error));
  CHECK(before <= total);
  uint64_t address = 0;
  STATUS(SPYRE_INVALID_ARGUMENT, api->memory_alloc(device, 0, &address, error));
  STATUS(SPYRE_INVALID_ARGUMENT, api->memory_alloc(device, 100, &address, error));
  STATUS(SPYRE_OUT_OF_MEMORY, api->memory_alloc(device, uint64_t{1} << 60, &address, error));
  const Memory one(128), two(1 << 20);
  CHECK(one.address != 0 && two.address != 0 && one.address != two.address);
}

// --- transfers -----------------------------------------------------------------------------------

TEST(float32_round_trip_is_exact) {
  Stream stream;
  for (const int64_t n : {1, 31, 32, 33, 1000, 100003}) {
    Vector vector(n);
    std::vector<float> in = ramp(n, -5), out(in.size());
    in[0] = std::nanf("");
    vector.write(stream, in);
    vector.read(stream, out);
    stream.synchronize();
    CHECK(std::memcmp(in.data(), out.data(), in.size() * sizeof(float)) == 0);
  }
}

TEST(integers_round_trip) {
  Stream stream;
  const Memory memory(1 << 16);
  std::vector<int64_t> in(1000), out(1000);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int64_t>(i * 0x9E3779B97F4A7C15u);
  transfer(stream, true, HostDtype::kInt64, DataFormat::kIeeeInt64, in.data(), memory.address,
           {{1000, 1, 1}});
  transfer(stream, false, HostDtype::kInt64, DataFormat::kIeeeInt64, out.data(), memory.address,
           {{1000, 1, 1}});
  stream.synchronize();
  CHECK(in == out);
}

TEST(strided_transfers_match_the_loops) {
  Stream stream;
  const Memory memory(1 << 16);
  // [7, 5] on the host, reversed columns, to sticks of 32 on the device.
  std::vector<float> in = ramp(35), out(35, 0.0f);
  transfer(stream, true, HostDtype::kFloat32, DataFormat::kIeeeFp32, in.data() + 4, memory.address,
           {{7, 5, 32}, {5, -1, 1}});
  transfer(stream, false, HostDtype::kFloat32, DataFormat::kIeeeFp32, out.data(), memory.address,
           {{7, 1, 32}, {5, 7, 1}});
  stream.synchronize();
  for (int row = 0; row < 7; ++row) {
    for (int column = 0; column < 5; ++column) {
      CHECK_EQ(out[static_cast<size_t>(column * 7 + row)],
               in[static_cast<size_t>(row * 5 + 4 - column)]);
    }
  }
}

TEST(half_values_go_through_sen169) {
  Stream stream;
  const Memory memory(128);
  std::vector<float> in = {0.f, 1.f, -2.5f, 1.0f + 1.0f / 512, 1.0f + 1.0f / 1024}, out(5);
  transfer(stream, true, HostDtype::kFloat32, DataFormat::kSen169Fp16, in.data(), memory.address,
           {{5, 1, 1}});
  transfer(stream, false, HostDtype::kFloat32, DataFormat::kSen169Fp16, out.data(), memory.address,
           {{5, 1, 1}});
  stream.synchronize();
  CHECK_EQ(out[1], 1.f);
  CHECK_EQ(out[2], -2.5f);
  CHECK_EQ(out[3], 1.0f + 1.0f / 512);
  CHECK_EQ(out[4], 1.0f + 1.0f / 512);  // half away from zero
}

TEST(bad_transfers_are_refused) {
  Stream stream;
  const Memory memory(256);
  float value[64] = {};
  spyre_transfer_loop loop{64, 1, 1};
  spyre_transfer good{sizeof(good),
                      1,
                      static_cast<int32_t>(HostDtype::kFloat32),
                      static_cast<int32_t>(DataFormat::kIeeeFp32),
                      1,
                      &loop,
                      value,
                      memory.address,
                      0};
  OK(api->transfer(stream.handle, &good, error));
  auto bad = good;
  bad.device_offset = 1;  // one element too far
  STATUS(SPYRE_INVALID_ARGUMENT, api->transfer(stream.handle, &bad, error));
  bad = good;
  bad.device_offset = -1;
  STATUS(SPYRE_INVALID_ARGUMENT, api->transfer(stream.handle, &bad, error));
  bad = good;
  bad.device_address = 0;
  STATUS(SPYRE_INVALID_ARGUMENT, api->transfer(stream.handle, &bad, error));
  bad = good;
  bad.device_format = 2;  // INVALID has no storage
  STATUS(SPYRE_INVALID_ARGUMENT, api->transfer(stream.handle, &bad, error));
  bad = good;
  bad.host_dtype = 999;
  STATUS(SPYRE_INVALID_ARGUMENT, api->transfer(stream.handle, &bad, error));
  spyre_transfer_loop overlapping{64, 1, 0};
  bad = good;
  bad.loops = &overlapping;
  STATUS(SPYRE_INVALID_ARGUMENT, api->transfer(stream.handle, &bad, error));
  stream.synchronize();
}

TEST(memory_copy_moves_bytes) {
  Stream stream;
  const int64_t n = 300000;
  Vector a(n), b(n);
  std::vector<float> in = ramp(n), out(in.size());
  a.write(stream, in);
  OK(api->memory_copy(stream.handle, b.memory.address, a.memory.address, a.memory.bytes, error));
  b.read(stream, out);
  stream.synchronize();
  CHECK(in == out);
  STATUS(SPYRE_INVALID_ARGUMENT, api->memory_copy(stream.handle, b.memory.address, a.memory.address,
                                                  a.memory.bytes + 128, error));
}

// --- streams and events --------------------------------------------------------------------------

TEST(an_idle_stream_is_ready) {
  Stream stream;
  Error error;
  CHECK_EQ(static_cast<int>(api->stream_query(stream.handle, error)), static_cast<int>(SPYRE_OK));
  const int64_t n = 1 << 20;
  Vector a(n);
  std::vector<float> in = ramp(n);
  a.write(stream, in);
  stream.synchronize();
  CHECK_EQ(static_cast<int>(api->stream_query(stream.handle, error)), static_cast<int>(SPYRE_OK));
}

TEST(work_of_a_stream_is_in_order) {
  Stream stream;
  const int64_t n = 50000;
  Vector a(n), b(n);
  std::vector<float> first = ramp(n), second = ramp(n, 7), out(first.size());
  for (int round = 0; round < 20; ++round) {
    a.write(stream, first);
    OK(api->memory_copy(stream.handle, b.memory.address, a.memory.address, a.memory.bytes, error));
    a.write(stream, second);
    b.read(stream, out);
    stream.synchronize();
    CHECK(out == first);
  }
}

TEST(an_event_orders_two_streams) {
  const int64_t n = 200000;
  Stream producer, consumer;
  Vector a(n);
  std::vector<float> in(static_cast<size_t>(n)), out(in.size());
  Event written, taken;
  for (int round = 0; round < 20; ++round) {
    std::fill(in.begin(), in.end(), static_cast<float>(round));
    OK(api->event_wait(taken.handle, producer.handle, error));
    a.write(producer, in);
    OK(api->event_record(written.handle, producer.handle, error));
    OK(api->event_wait(written.handle, consumer.handle, error));
    a.read(consumer, out);
    OK(api->event_record(taken.handle, consumer.handle, error));
    OK(api->event_synchronize(taken.handle, error));
    CHECK_EQ(out.front(), static_cast<float>(round));
    CHECK_EQ(out.back(), static_cast<float>(round));
  }
}

TEST(events_measure_time) {
  Stream stream;
  Event start, end;
  const int64_t n = 1 << 20;
  Vector a(n);
  std::vector<float> in = ramp(n);
  int64_t ns = -1;
  Error error;
  CHECK(api->event_elapsed_ns(start.handle, end.handle, &ns, error) != SPYRE_OK);
  OK(api->event_record(start.handle, stream.handle, error));
  a.write(stream, in);
  OK(api->event_record(end.handle, stream.handle, error));
  stream.synchronize();
  CHECK_EQ(static_cast<int>(api->event_query(end.handle, error)), static_cast<int>(SPYRE_OK));
  OK(api->event_elapsed_ns(start.handle, end.handle, &ns, error));
  CHECK(ns > 0);
}

TEST(an_event_never_recorded_holds_nothing_up) {
  Stream stream;
  Event event;
  OK(api->event_wait(event.handle, stream.handle, error));
  OK(api->event_synchronize(event.handle, error));
  stream.synchronize();
}

// --- programs ------------------------------------------------------------------------------------

TEST(a_program_adds) {
  Stream stream;
  for (const int64_t n : {1, 31, 64, 1000, 70001}) {
    const Program add(add_image(n));
    Vector a(n), b(n), c(n);
    std::vector<float> x = ramp(n), y = ramp(n, 3), out(x.size());
    a.write(stream, x);
    b.write(stream, y);
    launch_add(stream, add, a, b, c);
    c.read(stream, out);
    stream.synchronize();
    for (size_t i = 0; i < out.size(); ++i) CHECK_EQ(out[i], x[i] + y[i]);
  }
}

TEST(a_program_may_be_unloaded_while_it_is_queued) {
  Stream stream;
  const int64_t n = 200000;
  Vector a(n), b(n), c(n);
  std::vector<float> x = ramp(n), y = ramp(n, 3), out(x.size());
  a.write(stream, x);
  b.write(stream, y);
  {
    const Program add(add_image(n));
    for (int i = 0; i < 20; ++i) launch_add(stream, add, a, b, c);
  }
  c.read(stream, out);
  stream.synchronize();
  for (size_t i = 0; i < out.size(); ++i) CHECK_EQ(out[i], x[i] + y[i]);
}

TEST(damaged_images_are_refused) {
  const std::vector<uint8_t> image = add_image(1000);
  spyre_program* loaded = nullptr;
  STATUS(SPYRE_INVALID_ARGUMENT, api->program_load(device, image.data(), 0, &loaded, error));
  for (size_t size = 1; size < image.size(); size += 7) {
    STATUS(SPYRE_INVALID_ARGUMENT, api->program_load(device, image.data(), size, &loaded, error));
  }
  // Any flipped byte is either refused or gives a program that stays inside its buffers.
  Stream stream;
  Vector a(1000), b(1000), c(1000);
  const uint64_t addresses[] = {a.memory.address, b.memory.address, c.memory.address};
  for (size_t at = 0; at < image.size(); ++at) {
    std::vector<uint8_t> damaged = image;
    damaged[at] ^= 0x41;
    Error error;
    if (api->program_load(device, damaged.data(), damaged.size(), &loaded, error) != SPYRE_OK)
      continue;
    api->program_unload(loaded);
  }
  (void)addresses;
}

TEST(bad_launches_are_refused) {
  Stream stream;
  const Program add(add_image(64));
  Vector a(64);
  const uint64_t good = a.memory.address;
  const uint64_t too_few[] = {good, good};
  STATUS(SPYRE_INVALID_ARGUMENT, api->program_launch(stream.handle, add.handle, too_few, 2, error));
  const uint64_t with_null[] = {good, 0, good};
  STATUS(SPYRE_INVALID_ARGUMENT,
         api->program_launch(stream.handle, add.handle, with_null, 3, error));
}

TEST(an_index_out_of_range_is_told_once_by_synchronize) {
  const int64_t n = 100;
  const layout::Layout data_form = layout::Layout::row_major({n}, HostDtype::kFloat32);
  const layout::Layout index_form = layout::Layout::row_major({n}, HostDtype::kInt64);
  const Program gather(image_of(
      "spyre.program 1\nname \"gather\"\n"
      "buffer d arg float32 size [100] stride [1]\nbuffer i arg int64 size [100] stride [1]\n"
      "buffer o arg float32 size [100] stride [1]\nstage \"gather\"\n  loop 100\n"
      "  access a0 d stride [0] offset 0\n  access a1 i stride [1] offset 0\n  access a2 o stride "
      "[1] offset 0\n"
      "  phase\n    %0 = load a1\n    %1 = index_check %0 100\n    %2 = load a0 [%1]\n    store a2 "
      "%2\n",
      {&data_form, &index_form, &data_form},
      {HostDtype::kFloat32, HostDtype::kInt64, HostDtype::kFloat32}));
  Stream stream;
  Vector data(n), out(n);
  const Memory indices(static_cast<uint64_t>(index_form.device_bytes()));
  std::vector<float> values = ramp(n, 10), got(values.size());
  std::vector<int64_t> index(static_cast<size_t>(n));
  for (size_t i = 0; i < index.size(); ++i) index[i] = n - 1 - static_cast<int64_t>(i);
  const uint64_t addresses[] = {data.memory.address, indices.address, out.memory.address};
  data.write(stream, values);
  transfer(stream, true, HostDtype::kInt64, DataFormat::kIeeeInt64, index.data(), indices.address,
           {{n, 1, 1}});
  OK(api->program_launch(stream.handle, gather.handle, addresses, 3, error));
  out.read(stream, got);
  stream.synchronize();
  for (size_t i = 0; i < got.size(); ++i) CHECK_EQ(got[i], values[values.size() - 1 - i]);

  index[50] = n;
  transfer(stream, true, HostDtype::kInt64, DataFormat::kIeeeInt64, index.data(), indices.address,
           {{n, 1, 1}});
  OK(api->program_launch(stream.handle, gather.handle, addresses, 3, error));
  STATUS(SPYRE_INDEX_ERROR, api->stream_synchronize(stream.handle, error));
  stream.synchronize();  // told once; the stream stays usable
  Event after;
  OK(api->program_launch(stream.handle, gather.handle, addresses, 3, error));
  OK(api->event_record(after.handle, stream.handle, error));
  STATUS(SPYRE_INDEX_ERROR, api->event_synchronize(after.handle, error));
  OK(api->event_synchronize(after.handle, error));
  stream.synchronize();
  index[50] = 0;
  transfer(stream, true, HostDtype::kInt64, DataFormat::kIeeeInt64, index.data(), indices.address,
           {{n, 1, 1}});
  OK(api->program_launch(stream.handle, gather.handle, addresses, 3, error));
  out.read(stream, got);
  stream.synchronize();
  CHECK_EQ(got[50], values[0]);
}

TEST(streams_work_side_by_side) {
  const int64_t n = 4096;
  std::vector<std::string> failures(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < failures.size(); ++t) {
    threads.emplace_back([&, t] {
      try {
        Stream stream;
        const Program add(add_image(n));
        Vector a(n), b(n), c(n);
        std::vector<float> x = ramp(n, static_cast<float>(t)), y = ramp(n, 3), out(x.size());
        for (int round = 0; round < 50; ++round) {
          a.write(stream, x);
          b.write(stream, y);
          launch_add(stream, add, a, b, c);
          c.read(stream, out);
          stream.synchronize();
          for (size_t i = 0; i < out.size(); ++i) CHECK_EQ(out[i], x[i] + y[i]);
        }
      } catch (const std::exception& error) {
        failures[t] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) CHECK_EQ(failure, "");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s /path/driver.so [filter]\n", argv[0]);
    return 2;
  }
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const auto get_api =
      reinterpret_cast<spyre_driver_get_api_fn>(dlsym(library, "spyre_driver_get_api"));
  if (get_api == nullptr || (api = get_api(SPYRE_DRIVER_ABI_MAJOR)) == nullptr) {
    std::fprintf(stderr, "%s does not speak driver ABI major %u\n", argv[1],
                 SPYRE_DRIVER_ABI_MAJOR);
    return 2;
  }
  if (get_api(SPYRE_DRIVER_ABI_MAJOR + 1) != nullptr) {
    std::fprintf(stderr, "%s claims to speak an ABI that does not exist\n", argv[1]);
    return 2;
  }
  Error error;
  spyre_device_options options{sizeof(options), 0};
  if (api->device_open(0, &options, &device, error) != SPYRE_OK) {
    std::fprintf(stderr, "cannot open device 0: %s\n", error.text);
    return 2;
  }
  const int failed = check::run_all(argc > 2 ? argv[2] : "");
  api->device_close(device);
  return failed == 0 ? 0 : 1;
}
