// SPDX-License-Identifier: Apache-2.0
// The runtime over the software device: transfers, streams, events, executables, fork, threads.
#include "spyre/runtime/runtime.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

#include "check.h"
#include "spyre/layout/view.h"

namespace runtime = spyre::runtime;
namespace layout = spyre::layout;
namespace program = spyre::program;
using layout::HostDtype;
using layout::Layout;
using runtime::Allocation;
using runtime::StreamId;
using Shape = std::vector<int64_t>;

namespace {

constexpr StreamId kDefault{0, 0};

struct Tensor {
  Tensor(const Shape& shape, HostDtype dtype, StreamId stream = kDefault)
      : size(shape), stride(layout::contiguous_strides(shape)) {
    int64_t numel = 1;
    for (const int64_t extent : shape) numel *= extent;
    allocation = runtime::allocate(stream, Layout::row_major(shape, dtype), dtype,
                                   numel * layout::host_itemsize(dtype));
  }
  ~Tensor() { runtime::free(allocation); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  template <class T>
  void write(std::vector<T>& values, StreamId stream = kDefault, bool blocking = true) {
    runtime::copy_to_device(stream, allocation, 0, size, stride, {values.data(), stride}, blocking);
  }
  template <class T>
  void read(std::vector<T>& values, StreamId stream = kDefault, bool blocking = true) const {
    runtime::copy_to_host(stream, allocation, 0, size, stride, {values.data(), stride}, blocking);
  }
  Shape size, stride;
  Allocation* allocation;
};

std::vector<float> ramp(size_t n, float start = 0) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), start);
  return values;
}

program::Program add_program() {
  return program::parse(
      "spyre.program 1\nname \"add\"\nsymbol s0\n"
      "buffer a arg float32 size [s0] stride [1]\nbuffer b arg float32 size [s0] stride [1]\n"
      "buffer c arg float32 size [s0] stride [1]\nstage \"add\"\n  loop s0\n"
      "  access a0 a stride [1] offset 0\n  access a1 b stride [1] offset 0\n  access a2 c stride "
      "[1] offset 0\n"
      "  phase\n    %0 = load a0\n    %1 = load a1\n    %2 = add %0 %1\n    store a2 %2\n");
}

// --- transfers -----------------------------------------------------------------------------------

TEST(round_trips_of_many_shapes) {
  for (const Shape& shape : std::vector<Shape>{{},
                                               {1},
                                               {5},
                                               {64},
                                               {3, 0},
                                               {4, 128},
                                               {7, 65},
                                               {2, 3, 33},
                                               {2, 1, 3, 1, 2, 2, 5},
                                               {300, 1000}}) {
    Tensor tensor(shape, HostDtype::kFloat32);
    int64_t numel = 1;
    for (const int64_t extent : shape) numel *= extent;
    std::vector<float> in = ramp(static_cast<size_t>(numel), -3), out(in.size(), -1);
    tensor.write(in);
    tensor.read(out);
    CHECK(in == out);
  }
}

TEST(views_are_read_and_written_like_host_arrays) {
  // Random strided views of a [6, 10] float32 tensor, which is padded to 32 a row: many are not
  // affine.
  std::mt19937 random(11);
  const int64_t rows = 6, columns = 10, numel = rows * columns;
  for (int round = 0; round < 400; ++round) {
    Tensor tensor({rows, columns}, HostDtype::kFloat32);
    std::vector<float> host = ramp(numel);
    tensor.write(host);
    Shape size, stride;
    int64_t reach = 0;
    const auto rank = static_cast<size_t>(random() % 4);
    for (size_t d = 0; d < rank; ++d) {
      const int64_t step = static_cast<int64_t>(random() % 12);
      const int64_t room = step == 0 ? 4 : (numel - 1 - reach) / step + 1;
      const auto extent =
          static_cast<int64_t>(random() % static_cast<uint64_t>(std::min<int64_t>(room, 9) + 1));
      size.push_back(extent);
      stride.push_back(step);
      if (extent > 0) reach += (extent - 1) * step;
    }
    const auto offset = static_cast<int64_t>(random() % static_cast<uint64_t>(numel - reach));
    int64_t count = 1;
    for (const int64_t extent : size) count *= extent;
    const Shape dense = layout::contiguous_strides(size);
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, at = offset;
      for (size_t d = 0; d < rank; ++d) {
        at += rest / dense[d] % size[d] * stride[d];
      }
      offsets.push_back(at);
    }
    std::vector<float> got(static_cast<size_t>(std::max<int64_t>(count, 1)), -1);
    runtime::copy_to_host(kDefault, tensor.allocation, offset, size, stride, {got.data(), dense},
                          true);
    for (int64_t i = 0; i < count; ++i) {
      CHECK_EQ(got[static_cast<size_t>(i)],
               host[static_cast<size_t>(offsets[static_cast<size_t>(i)])]);
    }
    if (count != 0 && layout::overlaps_itself(size, stride)) {
      CHECK_THROWS(runtime::copy_to_device(kDefault, tensor.allocation, offset, size, stride,
                                           {got.data(), dense}, true),
                   runtime::ValueError, "");
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      got[static_cast<size_t>(i)] = 1000.f + static_cast<float>(i);
      host[static_cast<size_t>(offsets[static_cast<size_t>(i)])] = got[static_cast<size_t>(i)];
    }
    runtime::copy_to_device(kDefault, tensor.allocation, offset, size, stride, {got.data(), dense},
                            true);
    std::vector<float> all(static_cast<size_t>(numel));
    tensor.read(all);
    CHECK(all == host);
  }
}

TEST(views_out_of_range_are_refused) {
  Tensor tensor({4, 10}, HostDtype::kFloat32);
  std::vector<float> host(100);
  CHECK_THROWS(runtime::copy_to_host(kDefault, tensor.allocation, 1, {4, 10}, {10, 1},
                                     {host.data(), {10, 1}}, true),
               runtime::ValueError, "");
  CHECK_THROWS(
      runtime::copy_to_host(kDefault, tensor.allocation, -1, {4}, {1}, {host.data(), {1}}, true),
      runtime::ValueError, "");
  CHECK_THROWS(
      runtime::copy_to_host(kDefault, tensor.allocation, 0, {4}, {1, 1}, {host.data(), {1}}, true),
      runtime::ValueError, "strides");
  CHECK_THROWS(
      runtime::copy_to_host({1, 0}, tensor.allocation, 0, {4}, {1}, {host.data(), {1}}, true),
      runtime::ValueError, "spyre:1");
}

TEST(copies_of_device_bytes_are_exact) {
  Tensor a({33, 100}, HostDtype::kFloat32), b({33, 100}, HostDtype::kFloat32),
      c({5}, HostDtype::kFloat32);
  std::vector<float> in = ramp(3300), out(3300);
  a.write(in);
  runtime::copy_bytes(kDefault, b.allocation, a.allocation);
  b.read(out);
  CHECK(in == out);
  CHECK_THROWS(runtime::copy_bytes(kDefault, c.allocation, a.allocation), runtime::ValueError,
               "size");
}

TEST(copies_that_do_not_block_are_ordered) {
  Tensor tensor({1 << 20}, HostDtype::kFloat32);
  std::vector<float> first = ramp(1 << 20), second = ramp(1 << 20, 5), got_first(first.size()),
                     got_second(first.size());
  tensor.write(first, kDefault, false);
  tensor.read(got_first, kDefault, false);
  tensor.write(second, kDefault, false);
  tensor.read(got_second, kDefault, false);
  runtime::synchronize(kDefault);
  CHECK(got_first == first);
  CHECK(got_second == second);
  CHECK(runtime::query(kDefault));
}

// --- streams and events --------------------------------------------------------------------------

TEST(pools_are_round_robin) {
  const int first = runtime::stream_from_pool(0, 0).id;
  CHECK(first >= 1 && first <= 32);
  for (int i = 1; i <= 32; ++i) {
    const int id = runtime::stream_from_pool(0, 0).id;
    CHECK_EQ(id, 1 + (first - 1 + i) % 32);
  }
  const int high = runtime::stream_from_pool(0, -1).id;
  CHECK(high >= 33 && high <= 64);
}

TEST(the_current_stream_is_a_threads_own) {
  CHECK(runtime::current_stream(0) == kDefault);
  const StreamId stream{0, 5};
  CHECK(runtime::exchange_stream(stream) == kDefault);
  CHECK(runtime::current_stream(0) == stream);
  CHECK(runtime::exchange_stream(kDefault) == stream);
}

TEST(events_order_streams_and_measure) {
  const StreamId one{0, 1}, two{0, 2};
  Tensor tensor({1 << 20}, HostDtype::kFloat32, one);
  std::vector<float> in = ramp(1 << 20), out(in.size());
  runtime::Event start(0), written(0);
  CHECK(written.query());
  written.block(two);  // never recorded: no wait
  start.record(one);
  tensor.write(in, one, false);
  written.record(one);
  written.block(two);
  tensor.read(out, two, false);
  runtime::synchronize(two);
  CHECK(in == out);
  CHECK(written.query());
  CHECK(start.elapsed_ns(written) > 0);
  const runtime::Event never(0);
  CHECK_THROWS(start.elapsed_ns(never), runtime::ValueError, "recorded");
  runtime::Event other(1);
  CHECK_THROWS(other.record(one), runtime::ValueError, "spyre:1");
}

// --- executables ---------------------------------------------------------------------------------

TEST(a_program_runs_and_is_linked_once_per_form) {
  runtime::Executable add(add_program());
  const auto before = runtime::program_stats();
  for (int round = 0; round < 3; ++round) {
    for (const int64_t n : {1, 64, 1000}) {
      Tensor a({n}, HostDtype::kFloat32), b({n}, HostDtype::kFloat32), c({n}, HostDtype::kFloat32);
      std::vector<float> x = ramp(static_cast<size_t>(n)), y = ramp(static_cast<size_t>(n), 2),
                         out(x.size());
      a.write(x);
      b.write(y);
      const runtime::Executable::Arg args[] = {
          {a.allocation, 0}, {b.allocation, 0}, {c.allocation, 0}};
      add.launch(kDefault, args, 3, &n, 1);
      c.read(out);
      for (size_t i = 0; i < out.size(); ++i) CHECK_EQ(out[i], x[i] + y[i]);
    }
  }
  const auto after = runtime::program_stats();
  CHECK_EQ(after.links - before.links, 3);
  CHECK_EQ(after.launches - before.launches, 9);
}

TEST(bad_arguments_of_a_program_are_refused) {
  runtime::Executable add(add_program());
  const int64_t n = 64, too_many = 65;
  Tensor a({n}, HostDtype::kFloat32), h({n}, HostDtype::kFloat16);
  const runtime::Executable::Arg args[] = {{a.allocation, 0}, {a.allocation, 0}, {a.allocation, 0}};
  CHECK_THROWS(add.launch(kDefault, args, 2, &n, 1), runtime::ValueError, "takes 3 tensors");
  CHECK_THROWS(add.launch(kDefault, args, 3, &n, 0), runtime::ValueError, "1 symbols");
  CHECK_THROWS(add.launch(kDefault, args, 3, &too_many, 1), runtime::ValueError, "");
  const runtime::Executable::Arg wrong_dtype[] = {
      {a.allocation, 0}, {h.allocation, 0}, {a.allocation, 0}};
  CHECK_THROWS(add.launch(kDefault, wrong_dtype, 3, &n, 1), runtime::ValueError, "float16");
  const runtime::Executable::Arg missing[] = {{a.allocation, 0}, {nullptr, 0}, {a.allocation, 0}};
  CHECK_THROWS(add.launch(kDefault, missing, 3, &n, 1), runtime::ValueError, "argument 1");
  const runtime::Executable::Arg shifted[] = {
      {a.allocation, 1}, {a.allocation, 0}, {a.allocation, 0}};
  CHECK_THROWS(add.launch(kDefault, shifted, 3, &n, 1), runtime::ValueError, "");
  CHECK(!add.print_bound(args, 3, &n, 1).empty());
}

TEST(the_cache_of_bound_forms_is_bounded) {
  runtime::Executable add(add_program());
  Tensor a({5000}, HostDtype::kFloat32);
  const runtime::Executable::Arg args[] = {{a.allocation, 0}, {a.allocation, 0}, {a.allocation, 0}};
  for (int64_t n = 1; n <= 5000; ++n) add.launch(kDefault, args, 3, &n, 1);
  runtime::synchronize(kDefault);
  const auto before = runtime::program_stats();
  const int64_t recent = 5000, old = 1;
  add.launch(kDefault, args, 3, &recent, 1);
  CHECK_EQ(runtime::program_stats().links, before.links);
  add.launch(kDefault, args, 3, &old, 1);  // was dropped: linked anew
  CHECK_EQ(runtime::program_stats().links, before.links + 1);
  runtime::synchronize(kDefault);
}

// --- fork ----------------------------------------------------------------------------------------

TEST(a_forked_child_is_told_and_ends_well) {
  Tensor tensor({64}, HostDtype::kFloat32);
  std::vector<float> values = ramp(64);
  tensor.write(values);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    int code = 3;
    if (runtime::in_bad_fork() && !runtime::is_initialized()) {
      try {
        tensor.read(values);
      } catch (const runtime::RuntimeError& error) {
        code = std::strstr(error.what(), "fork") != nullptr ? 0 : 4;
      }
      runtime::free(tensor.allocation);  // harmless
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 0);
  CHECK(!runtime::in_bad_fork());
}

}  // namespace

int main(int argc, char** argv) {
  setenv("SPYRE_DRIVER", SOFTWARE_DRIVER, 1);
  setenv("AIU_WORLD_SIZE", "2", 1);
  return check::run_all(argc > 1 ? argv[1] : "") == 0 ? 0 : 1;
}
