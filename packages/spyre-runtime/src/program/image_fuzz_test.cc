// SPDX-License-Identifier: Apache-2.0
// Mutated images: deserialize() must refuse them or return a program whose every access is proven,
// and never crash. Run under SPYRE_SANITIZE=address,undefined to see more.
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "program/bound.h"
#include "program/verify.h"
#include "spyre/program/link.h"

namespace {

using namespace spyre;

const char* const kPrograms[] = {
    R"(spyre.program 1
name "softmax"
buffer b0 arg float16 size [5, 100] stride [100, 1]
buffer b1 arg float16 size [5, 100] stride [100, 1]
stage "softmax"
  loop 5
  loop 100 reduce
  access a0 b0 stride [100, 1] offset 0
  access a1 b1 stride [100, 1] offset 0
  phase reduce
    %0 = load a0
    %1 = reduce_max %0
  phase reduce
    %2 = load a0
    %3 = sub %2 %1
    %4 = exp %3
    store a1 %4
)",
    R"(spyre.program 1
name "gather"
buffer b0 arg float16 size [5, 100] stride [100, 1]
buffer b1 arg float16 size [5, 100] stride [100, 1]
stage "gather"
  loop 5
  loop 100
  access a0 b0 stride [0, 1] offset 0
  access a1 b1 stride [100, 1] offset 0
  phase
    %0 = iota 0
    %1 = index_check %0 5
    %2 = const_i 100
    %3 = mul_i %1 %2
    %4 = load a0 [%3]
    store a1 %4
)",
    R"(spyre.program 1
name "product"
buffer b0 arg float16 size [5, 100] stride [100, 1]
buffer b1 arg float16 size [5, 100] stride [100, 1]
buffer t0 temp float32 size [5, 5] stride [5, 1]
stage "mm"
  loop 5
  loop 5
  loop 100 reduce
  access a0 b0 stride [100, 0, 1] offset 0
  access a1 b1 stride [0, 100, 1] offset 0
  access a2 t0 stride [5, 1, 0] offset 0
  phase reduce
    %0 = load a0
    %1 = load a1
    %2 = dot %0 %1
  phase
    store a2 %2
)"};

/// Whether every affine access of an accepted program lies inside its buffer: checked apart from
/// verify().
bool inside(const program::BoundProgram& p) {
  for (const auto& stage : p.stages) {
    const auto uses = program::access_uses(stage.phases, stage.accesses.size());
    bool empty = false;
    for (const auto& loop : stage.loops) empty = empty || loop.extent == 0;
    for (size_t i = 0; i < stage.accesses.size(); ++i) {
      const auto& a = stage.accesses[i];
      if (a.buffer < 0 || a.indexed || !uses[i].used || empty) continue;
      int64_t low = 0, high = 0;
      if (!program::access_range(stage, a, &low, &high)) return false;
      if (low < 0 || high >= p.buffers[static_cast<size_t>(a.buffer)].elements) return false;
    }
  }
  return true;
}

}  // namespace

int main() {
  const layout::Layout layout = layout::Layout::row_major({5, 100}, layout::HostDtype::kFloat16);
  const std::vector<program::ArgBinding> args(2, {&layout, layout::HostDtype::kFloat16, 0});
  std::mt19937_64 random(7);
  int refused = 0, accepted = 0;
  for (const char* text : kPrograms) {
    const std::vector<uint8_t> image =
        program::serialize(program::link(program::parse(text), args, {}, {}));
    if (program::serialize(program::deserialize(image.data(), image.size())) != image) {
      std::fprintf(stderr, "an image does not survive a round trip\n");
      return 1;
    }
    for (int i = 0; i < 20000; ++i) {
      std::vector<uint8_t> mutated = image;
      const int changes = 1 + static_cast<int>(random() % 3);
      for (int c = 0; c < changes; ++c) {
        const size_t at = random() % mutated.size();
        switch (random() % 4) {
          case 0: mutated[at] = static_cast<uint8_t>(random()); break;
          case 1: mutated[at] = static_cast<uint8_t>(mutated[at] ^ (1u << random() % 8)); break;
          case 2: {
            const int64_t values[] = {
                -1, 0, 1, 63, 64, INT64_MAX, INT64_MIN, int64_t{1} << 32, int64_t{1} << 47};
            const int64_t value = values[random() % 9];
            const size_t whole = at / 8 * 8;
            std::memcpy(&mutated[whole], &value, std::min<size_t>(8, mutated.size() - whole));
            break;
          }
          default: mutated.resize(random() % (mutated.size() + 1)); break;
        }
        if (mutated.empty()) break;
      }
      try {
        const program::BoundProgram p = program::deserialize(mutated.data(), mutated.size());
        ++accepted;
        if (!inside(p)) {
          std::fprintf(stderr, "an accepted image reaches outside a buffer\n");
          return 1;
        }
      } catch (const std::invalid_argument&) {
        ++refused;
      }
    }
  }
  std::printf("%d images refused, %d accepted\n", refused, accepted);
  return refused > 0 ? 0 : 1;
}
