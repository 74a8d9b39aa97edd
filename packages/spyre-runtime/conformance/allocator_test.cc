// SPDX-License-Identifier: Apache-2.0
// The caching allocator and the handle space, over the null driver, whose memory is small and whose
// events wait when told to.
#include <dlfcn.h>

#include <cstdlib>
#include <random>
#include <set>

#include "check.h"
#include "spyre/runtime/runtime.h"

namespace runtime = spyre::runtime;
namespace layout = spyre::layout;
using layout::HostDtype;
using layout::Layout;
using runtime::Allocation;
using runtime::StreamId;

namespace {

template <class T>
T& hook(const char* name) {
  static void* library = dlopen(NULL_DRIVER, RTLD_NOW | RTLD_LOCAL);
  return *static_cast<T*>(dlsym(library, name));
}

Allocation* allocate(int64_t elements, HostDtype dtype = HostDtype::kFloat16,
                     StreamId stream = {0, 0}) {
  return runtime::allocate(stream, Layout::row_major({elements}, dtype), dtype,
                           elements * layout::host_itemsize(dtype));
}

const void* at(uint64_t address) { return reinterpret_cast<const void*>(address); }

TEST(an_allocation_knows_itself) {
  Allocation* a = allocate(100, HostDtype::kBool);
  CHECK_EQ(a->logical_bytes, 100);
  CHECK_EQ(a->physical_bytes, 256);
  CHECK_EQ(a->device, 0);
  CHECK(a->dtype == HostDtype::kBool);
  CHECK(a->device_address != 0 && a->device_address % 128 == 0);
  CHECK(!a->raw);
  runtime::free(a);
}

TEST(find_knows_every_byte_and_no_other) {
  std::vector<Allocation*> all;
  for (const int64_t n : {0, 1, 3, 64, 127, 128, 129, 1000, 4096, 100000})
    all.push_back(allocate(n));
  for (Allocation* a : all) {
    for (const int64_t offset : {int64_t{0}, a->logical_bytes / 2, a->logical_bytes}) {
      CHECK_EQ(runtime::find(at(a->handle + static_cast<uint64_t>(offset))), a);
    }
    const Allocation* below = runtime::find(at(a->handle - 1));
    CHECK(below != a);
    CHECK(runtime::find(at(a->handle + static_cast<uint64_t>(a->logical_bytes) + 1)) == nullptr);
  }
  CHECK(runtime::find(nullptr) == nullptr);
  CHECK(runtime::find(&all) == nullptr);
  for (Allocation* a : all) {
    const uint64_t handle = a->handle;
    runtime::free(a);
    CHECK(runtime::find(at(handle)) == nullptr);
  }
}

TEST(handles_do_not_overlap) {
  std::mt19937 random(7);
  std::vector<Allocation*> alive;
  for (int step = 0; step < 20000; ++step) {
    if (alive.size() < 200 && random() % 3 != 0) {
      Allocation* a =
          allocate(static_cast<int64_t>(random() % (random() % 50 == 0 ? 100000 : 300)));
      for (int probe = 0; probe < 4; ++probe) {
        const uint64_t offset = random() % static_cast<uint64_t>(a->logical_bytes + 1);
        CHECK_EQ(runtime::find(at(a->handle + offset)), a);
      }
      alive.push_back(a);
    } else if (!alive.empty()) {
      const size_t which = random() % alive.size();
      CHECK_EQ(runtime::find(at(alive[which]->handle)), alive[which]);
      runtime::free(alive[which]);
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  std::set<std::pair<uint64_t, uint64_t>> spans;
  for (Allocation* a : alive) {
    spans.insert({a->device_address, a->device_address + static_cast<uint64_t>(a->physical_bytes)});
  }
  uint64_t end = 0;
  for (const auto& [first, last] : spans) {
    CHECK(first >= end);
    end = last;
  }
  for (Allocation* a : alive) runtime::free(a);
}

TEST(a_block_comes_back_at_once_on_its_stream) {
  Allocation* a = allocate(1 << 20);
  const uint64_t address = a->device_address;
  runtime::free(a);
  Allocation* b = allocate((1 << 20) - 5);
  CHECK_EQ(b->device_address, address);
  Allocation* c = allocate(1 << 20);
  CHECK(c->device_address != address);
  runtime::free(b);
  runtime::free(c);
}

TEST(a_block_does_not_go_to_another_stream) {
  Allocation* a = allocate(1 << 20);
  const uint64_t address = a->device_address;
  runtime::free(a);
  Allocation* b = allocate(1 << 20, HostDtype::kFloat16, {0, 1});
  CHECK(b->device_address != address);
  runtime::free(b);
}

TEST(use_on_another_stream_delays_reuse) {
  runtime::empty_cache();
  runtime::synchronize({0, 3});  // makes the stream
  Allocation* a = allocate(1 << 20);
  const uint64_t address = a->device_address;
  runtime::record_use(a, {0, 3});
  hook<int>("null_driver_events_pending") = 1;
  runtime::free(a);
  Allocation* b = allocate(1 << 20);
  CHECK(b->device_address != address);
  hook<int>("null_driver_events_pending") = 0;
  Allocation* c = allocate(1 << 20);
  CHECK_EQ(c->device_address, address);
  runtime::free(b);
  runtime::free(c);
}

TEST(exhaustion_gives_back_the_cache_and_retries) {
  runtime::empty_cache();
  const auto before = runtime::memory_stats(0);
  std::vector<Allocation*> small;
  for (int i = 0; i < 40; ++i) small.push_back(allocate(512 << 10));  // 40 MiB of 64
  for (Allocation* a : small) runtime::free(a);
  Allocation* large = allocate(24 << 20);  // 48 MiB: needs the cached memory
  const auto after = runtime::memory_stats(0);
  CHECK_EQ(after.retries, before.retries + 1);
  CHECK_EQ(after.ooms, before.ooms);
  CHECK_THROWS(allocate(24 << 20), runtime::OutOfMemoryError, "asked for 48.00 MiB");
  CHECK_EQ(runtime::memory_stats(0).ooms, before.ooms + 1);
  Allocation* still_works = allocate(64);
  runtime::free(still_works);
  runtime::free(large);
}

TEST(empty_cache_gives_everything_back) {
  Allocation* kept = allocate(64);
  std::vector<Allocation*> all;
  for (int i = 1; i < 500; ++i) all.push_back(allocate(i * 37));
  for (Allocation* a : all) runtime::free(a);
  runtime::empty_cache();
  const auto stats = runtime::memory_stats(0);
  CHECK_EQ(stats.allocated.current, kept->physical_bytes);
  CHECK(stats.reserved.current <= (64 << 10));  // the slab that `kept` lies in
  CHECK_EQ(hook<uint64_t>("null_driver_used_bytes"), static_cast<uint64_t>(stats.reserved.current));
  CHECK_EQ(runtime::find(at(kept->handle)), kept);
  runtime::free(kept);
  runtime::empty_cache();
  CHECK_EQ(runtime::memory_stats(0).reserved.current, 0);
  CHECK_EQ(hook<uint64_t>("null_driver_used_bytes"), uint64_t{0});
}

TEST(peaks_are_kept_until_reset) {
  runtime::reset_peak_memory_stats(0);
  Allocation* a = allocate(1 << 20);
  const int64_t high = runtime::memory_stats(0).allocated.current;
  runtime::free(a);
  CHECK_EQ(runtime::memory_stats(0).allocated.peak, high);
  runtime::reset_peak_memory_stats(0);
  CHECK_EQ(runtime::memory_stats(0).allocated.peak, runtime::memory_stats(0).allocated.current);
}

TEST(relayout_keeps_the_handle) {
  Allocation* a = allocate(100);  // [100] float16: two sticks
  const uint64_t handle = a->handle;
  const int64_t before = runtime::memory_stats(0).allocated.current;
  // One element per stick: 100 sticks.
  const Layout sparse = Layout::generic_stick({100}, {1}, HostDtype::kFloat16, {0, -1});
  runtime::relayout(a, sparse, HostDtype::kFloat16);
  CHECK_EQ(a->handle, handle);
  CHECK_EQ(a->physical_bytes, sparse.device_bytes());
  CHECK(*a->layout == sparse);
  CHECK_EQ(runtime::find(at(handle + 5)), a);
  CHECK_EQ(runtime::memory_stats(0).allocated.current, before - 256 + sparse.device_bytes());
  runtime::free(a);
  CHECK(runtime::find(at(handle)) == nullptr);
}

TEST(layout_ids_are_interned) {
  Allocation* a = allocate(100);
  Allocation* b = allocate(100);
  Allocation* c = allocate(100, HostDtype::kBFloat16);
  Allocation* d = allocate(101);
  CHECK_EQ(a->layout_id, b->layout_id);
  CHECK(a->layout_id != c->layout_id);
  CHECK(a->layout_id != d->layout_id);
  const int64_t size[] = {100};
  CHECK_EQ(runtime::intern_row_major(size, 1, HostDtype::kFloat16).id, a->layout_id);
  CHECK_EQ(runtime::intern_row_major(size, 1, HostDtype::kFloat16).id, a->layout_id);
  const int64_t matrix[] = {3, 5}, rows[] = {5, 1}, columns[] = {1, 3};
  const auto& by_rows = runtime::intern_strided(matrix, rows, 2, HostDtype::kFloat16);
  CHECK_EQ(by_rows.id, runtime::intern_row_major(matrix, 2, HostDtype::kFloat16).id);
  const auto& by_columns = runtime::intern_strided(matrix, columns, 2, HostDtype::kFloat16);
  CHECK(by_columns.id != by_rows.id);
  CHECK_EQ(runtime::intern_strided(matrix, columns, 2, HostDtype::kFloat16).id, by_columns.id);
  CHECK(by_columns.layout == Layout::strided({3, 5}, {1, 3}, HostDtype::kFloat16));
  for (Allocation* each : {a, b, c, d}) runtime::free(each);
}

TEST(devices_have_their_own_memory) {
  Allocation* a = allocate(100);
  Allocation* b = allocate(100, HostDtype::kFloat16, {1, 0});
  CHECK_EQ(runtime::find(at(a->handle))->device, 0);
  CHECK_EQ(runtime::find(at(b->handle))->device, 1);
  CHECK_THROWS(runtime::copy_bytes({0, 0}, a, b), runtime::ValueError, "one device");
  CHECK_THROWS(runtime::record_use(a, {1, 0}), runtime::ValueError, "spyre:1");
  runtime::free(a);
  runtime::free(b);
}

TEST(bad_streams_are_refused) {
  CHECK_THROWS(allocate(10, HostDtype::kFloat16, {0, 65}), runtime::IndexError, "65");
  CHECK_THROWS(runtime::query({0, -1}), runtime::IndexError, "-1");
  CHECK_THROWS(runtime::exchange_stream({0, 999}), runtime::IndexError, "999");
  CHECK_THROWS(runtime::current_stream(-1), runtime::IndexError, "-1");
}

}  // namespace

int main() {
  setenv("SPYRE_DRIVER", NULL_DRIVER, 1);
  return check::run_all() == 0 ? 0 : 1;
}
