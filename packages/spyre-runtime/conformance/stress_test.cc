// SPDX-License-Identifier: Apache-2.0
// Many threads over few streams: allocator, events, transfers, programs and memory reuse at once.
// Made for the sanitizers; every round also checks its data.
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "check.h"
#include "spyre/program/program.h"
#include "spyre/runtime/runtime.h"

namespace runtime = spyre::runtime;
namespace layout = spyre::layout;
using layout::HostDtype;
using layout::Layout;
using runtime::Allocation;
using runtime::StreamId;

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 150;

/// Runs body(thread) on kThreads threads and passes on the first failure.
void in_threads(const std::function<void(unsigned)>& body) {
  std::vector<std::string> failures(kThreads);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        body(t);
      } catch (const std::exception& error) {
        failures[t] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) CHECK_EQ(failure, "");
}

Allocation* allocate(int64_t n, StreamId stream) {
  return runtime::allocate(stream, Layout::row_major({n}, HostDtype::kFloat32), HostDtype::kFloat32,
                           n * 4);
}

void write(Allocation* to, std::vector<float>& from, StreamId stream) {
  const auto n = static_cast<int64_t>(from.size());
  runtime::copy_to_device(stream, to, 0, {n}, {1}, {from.data(), {1}}, false);
}

void read(const Allocation* from, std::vector<float>& to, StreamId stream) {
  const auto n = static_cast<int64_t>(to.size());
  runtime::copy_to_host(stream, from, 0, {n}, {1}, {to.data(), {1}}, false);
}

TEST(memory_is_reused_without_mixing_streams) {
  in_threads([](unsigned t) {
    std::mt19937 random(t);
    for (int round = 0; round < kRounds; ++round) {
      const StreamId one{0, static_cast<int>(random() % 4)}, two{0, static_cast<int>(random() % 4)};
      const auto n =
          static_cast<size_t>(random() % 3 == 0 ? random() % 300000 : random() % 500) + 1;
      std::vector<float> in(n, static_cast<float>(t * 1000 + static_cast<unsigned>(round))), out(n);
      Allocation* a = allocate(static_cast<int64_t>(n), one);
      write(a, in, one);
      runtime::Event written(0);
      written.record(one);
      written.block(two);
      read(a, out, two);  // records the use of `two`
      runtime::free(a);   // while both streams may still be at it
      runtime::synchronize(one);
      runtime::synchronize(two);
      CHECK(in == out);
    }
  });
}

TEST(events_are_shared_by_threads) {
  runtime::Event event(0);
  in_threads([&](unsigned t) {
    for (int round = 0; round < kRounds; ++round) {
      event.record({0, static_cast<int>(t % 3)});
      event.block({0, static_cast<int>((t + 1) % 3)});
      (void)event.query();
      event.synchronize();
      runtime::synchronize({0, static_cast<int>((t + 1) % 3)});
    }
  });
}

TEST(handles_are_found_while_others_come_and_go) {
  std::atomic<bool> stops{false};
  Allocation* kept = allocate(1000, {0, 0});
  std::thread finder([&] {
    while (!stops.load()) {
      if (runtime::find(reinterpret_cast<const void*>(kept->handle + 40)) != kept) std::abort();
    }
  });
  in_threads([](unsigned t) {
    std::mt19937 random(t);
    std::vector<Allocation*> mine;
    for (int round = 0; round < kRounds * 10; ++round) {
      if (mine.size() < 20) {
        mine.push_back(
            allocate(static_cast<int64_t>(random() % 5000), {0, static_cast<int>(t % 2)}));
      } else {
        const size_t which = random() % mine.size();
        CHECK_EQ(runtime::find(reinterpret_cast<const void*>(mine[which]->handle)), mine[which]);
        runtime::free(mine[which]);
        mine[which] = mine.back();
        mine.pop_back();
      }
      if (round % 500 == 0) runtime::empty_cache();
    }
    for (Allocation* a : mine) runtime::free(a);
  });
  stops.store(true);
  finder.join();
  runtime::free(kept);
}

TEST(queues_may_grow_long) {
  const StreamId stream{0, 7};
  std::vector<float> large(1 << 20, 1.0f), small(64, 2.0f), out(64);
  Allocation* a = allocate(1 << 20, stream);
  Allocation* b = allocate(64, stream);
  for (int i = 0; i < 4; ++i) write(a, large, stream);
  for (int i = 0; i < 20000; ++i) write(b, small, stream);
  read(b, out, stream);
  runtime::synchronize(stream);
  CHECK(out == small);
  runtime::free(a);
  runtime::free(b);
}

// --- programs ------------------------------------------------------------------------------------

constexpr int64_t kRows = 48, kDepth = 64, kCols = 96;

/// y = x @ w. The device may keep the right operand packed.
std::string product_text() {
  const std::string m = std::to_string(kRows), k = std::to_string(kDepth),
                    n = std::to_string(kCols);
  return "spyre.program 1\nname \"product\"\n"
         "buffer x arg float32 size [" +
         m + ", " + k + "] stride [" + k +
         ", 1]\n"
         "buffer w arg float32 size [" +
         k + ", " + n + "] stride [" + n +
         ", 1]\n"
         "buffer y arg float32 size [" +
         m + ", " + n + "] stride [" + n +
         ", 1]\n"
         "stage \"product\"\n  loop " +
         m + "\n  loop " + n + "\n  loop " + k +
         " reduce\n"
         "  access a0 x stride [" +
         k +
         ", 0, 1] offset 0\n"
         "  access a1 w stride [0, 1, " +
         n +
         "] offset 0\n"
         "  access a2 y stride [" +
         n +
         ", 1, 0] offset 0\n"
         "  phase reduce\n    %0 = load a0\n    %1 = load a1\n    %2 = dot %0 %1\n"
         "  phase\n    store a2 %2\n";
}

std::string sum_text() {
  const std::string m = std::to_string(kRows), n = std::to_string(kCols);
  return "spyre.program 1\nname \"sum\"\n"
         "buffer y arg float32 size [" +
         m + ", " + n + "] stride [" + n +
         ", 1]\n"
         "buffer z arg float32 size [" +
         m +
         "] stride [1]\n"
         "stage \"sum\"\n  loop " +
         m + "\n  loop " + n +
         " reduce\n"
         "  access a0 y stride [" +
         n +
         ", 1] offset 0\n  access a1 z stride [1, 0] offset 0\n"
         "  phase reduce\n    %0 = load a0\n    %1 = reduce_sum %0\n"
         "  phase\n    store a1 %1\n";
}

TEST(threads_launch_the_same_programs_on_many_streams) {
  // Small whole numbers: every product and sum is exact.
  runtime::Executable product(spyre::program::parse(product_text()));
  runtime::Executable sum(spyre::program::parse(sum_text()));
  std::vector<float> ones(static_cast<size_t>(kDepth * kCols), 1.0f);
  Allocation* weight = allocate(kDepth * kCols, {0, 0});
  write(weight, ones, {0, 0});
  runtime::Event weight_is_there(0);
  weight_is_there.record({0, 0});
  in_threads([&](unsigned t) {
    std::mt19937 random(t);
    for (int round = 0; round < kRounds / 3; ++round) {
      const StreamId one{0, static_cast<int>(1 + random() % 5)},
          two{0, static_cast<int>(33 + random() % 5)};
      const auto value = static_cast<float>(1 + (t + static_cast<unsigned>(round)) % 3);
      std::vector<float> in(static_cast<size_t>(kRows * kDepth), value),
          out(static_cast<size_t>(kRows));
      std::vector<float> mine(ones.size(), 2.0f);
      Allocation* x = allocate(kRows * kDepth, one);
      Allocation* y = allocate(kRows * kCols, one);
      Allocation* z = allocate(kRows, two);
      Allocation* w = weight;
      write(x, in, one);
      weight_is_there.block(one);
      const bool is_own = round % 4 == 3;
      if (is_own) {  // so packed operands come and go as well
        w = allocate(kDepth * kCols, one);
        write(w, mine, one);
      }
      const runtime::Executable::Arg factors[] = {{x, 0}, {w, 0}, {y, 0}};
      product.launch(one, factors, 3, nullptr, 0);
      runtime::Event is_multiplied(0);
      is_multiplied.record(one);
      is_multiplied.block(two);
      const runtime::Executable::Arg terms[] = {{y, 0}, {z, 0}};
      sum.launch(two, terms, 2, nullptr, 0);
      read(z, out, two);
      for (Allocation* done : {x, y, z}) runtime::free(done);
      if (is_own) runtime::free(w);
      runtime::synchronize(two);
      runtime::synchronize(one);
      const float expected = value * (is_own ? 2.0f : 1.0f) * static_cast<float>(kDepth * kCols);
      CHECK(out == std::vector<float>(static_cast<size_t>(kRows), expected));
    }
  });
  runtime::synchronize_device(0);
  runtime::free(weight);
}

}  // namespace

int main() {
  setenv("SPYRE_DRIVER", SOFTWARE_DRIVER, 1);
  return check::run_all() == 0 ? 0 : 1;
}
