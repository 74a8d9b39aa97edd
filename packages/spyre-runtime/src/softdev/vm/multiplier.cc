// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/multiplier.h"

#include <ATen/native/CPUBlas.h>

#include <cmath>

namespace spyre::softdev {
namespace {

namespace blas = at::native::cpublas;

}  // namespace

const Engine& engine() {
  static const Engine e{blas::could_pack(at::kHalf), blas::could_pack(at::kBFloat16)};
  return e;
}

Multiplier::Multiplier(Workspace& workspace)
    : memory_(reinterpret_cast<uint16_t*>(workspace.get(
          (kMaxBlockRows * kMaxLeftPitch + kPanel * kMaxBlockDepth) * 2 * sizeof(uint16_t)))) {}

Multiplier::~Multiplier() {
  if (used_) blas::brgemm_release(true);
}

void Multiplier::run(const Block& a, int64_t m, const Block& b, int64_t width, int64_t depth,
                     float* c, int64_t ldc, bool add, int* exponent) {
  if (!engine().pairs()) return plain(a, m, b, width, depth, c, ldc, add);
  used_ = true;
  if (engine().planes()) return in_bfloat16(a, m, b, width, depth, c, ldc, add);
  if (a.is_half() && b.is_half()) {
    add_product({a.data, a.scale}, m, {b.data, b.scale}, width, depth, c, ldc, add, exponent);
    return;
  }
  uint16_t* right_memory = memory_ + 2 * kMaxBlockRows * kMaxLeftPitch;
  if (a.is_half() || converted_ != a.data || left_.count == 0) {
    left_ = levels(a, m * left_pitch(depth), memory_);
    converted_ = a.is_half() ? nullptr : a.data;
  }
  const Levels right = left_.count == 0 ? Levels{} : levels(b, width * depth, right_memory);
  if (right.count == 0) {
    if (add && *exponent != 0) {
      kernels().scale_rows(c, ldc, c, ldc, m, width, std::ldexp(1.0f, -*exponent));
    }
    *exponent = 0;
    converted_ = nullptr;
    return in_bfloat16(split(a, m * left_pitch(depth), memory_), m,
                       split(b, width * depth, right_memory), width, depth, c, ldc, add);
  }
  for (int i = 0; i < left_.count; ++i) {
    for (int j = 0; j < right.count; ++j) {
      add_product(left_.level[i], m, right.level[j], width, depth, c, ldc, add || i + j > 0,
                  exponent);
    }
  }
}

/// The block as halves; none if its values span more than two blocks of them take.
Multiplier::Levels Multiplier::levels(const Block& block, int64_t codes, uint16_t* memory) {
  if (block.is_half()) return {{{block.data, block.scale}, {}}, 1};
  uint16_t *high = memory, *low = memory + codes;
  int scale = 0, lower_scale = 0;
  if (!kernels().codes_to_halves(high, low, block.data, codes, &scale, &lower_scale)) return {};
  return {{{high, scale}, {low, lower_scale}}, 2};
}

void Multiplier::add_product(const Level& a, int64_t m, const Level& b, int64_t width,
                             int64_t depth, float* c, int64_t ldc, bool add, int* exponent) {
  const int wanted = a.scale + b.scale;
  if (add && wanted != *exponent) {
    // A power of two is exact, and cannot overflow what products of SEN169 reach.
    kernels().scale_rows(c, ldc, c, ldc, m, width, std::ldexp(1.0f, wanted - *exponent));
  }
  *exponent = wanted;
  blas::brgemm(m, width, depth, left_pitch(depth), width, ldc, add,
               reinterpret_cast<const at::Half*>(a.data), reinterpret_cast<const at::Half*>(b.data),
               c, true);
}

/// A block of halves or codes as bfloat16 planes.
Block Multiplier::split(const Block& block, int64_t codes, uint16_t* memory) const {
  uint16_t *high = memory, *low = memory + codes;
  const uint16_t* data = block.data;
  if (block.is_half()) {
    kernels().half_to_codes(high, data, codes, block.scale);
    data = high;
  }
  kernels().codes_to_bf16(high, low, data, codes);
  return {high, kCodes, low};
}

void Multiplier::in_bfloat16(const Block& a, int64_t m, const Block& b, int64_t width,
                             int64_t depth, float* c, int64_t ldc, bool add) {
  const int64_t pitch = left_pitch(depth);
  auto product = [&](const uint16_t* left, const uint16_t* right, bool add_to) {
    blas::brgemm(m, width, depth, pitch, width, ldc, add_to,
                 reinterpret_cast<const at::BFloat16*>(left),
                 reinterpret_cast<const at::BFloat16*>(right), c, true);
  };
  product(a.data, b.data, add);
  product(a.data, b.low, true);
  product(a.low, b.data, true);
  product(a.low, b.low, true);
}

void Multiplier::plain(const Block& a, int64_t m, const Block& b, int64_t width, int64_t depth,
                       float* c, int64_t ldc, bool add) {
  const int64_t pitch = left_pitch(depth);
  auto* a32 = reinterpret_cast<float*>(memory_);
  float* b32 = a32 + kMaxBlockRows * kMaxLeftPitch;
  if (converted_ != a.data) kernels().codes_to_f32(a32, a.data, m * pitch);
  converted_ = a.data;
  kernels().codes_to_f32(b32, b.data, width * depth);
  kernels().gemm_f32(m, width, depth, a32, pitch, b32, width, c, ldc, add);
}

}  // namespace spyre::softdev
