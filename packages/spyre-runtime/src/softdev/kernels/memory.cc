// SPDX-License-Identifier: Apache-2.0
// Loads and stores: decode elements of a storage format into lanes, encode lanes back.
#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "softdev/kernels/fill.h"
#include "spyre/layout/codec.h"

namespace spyre::softdev::CPU_CAPABILITY {
namespace {

// Each codec: storage type S, register type R, both directions. A stored value is rounded here.
struct Sen169 {
  using S = uint16_t;
  using R = float;
  static R decode(S x) { return layout::sen169_to_float(x); }
  static S encode(R x) { return layout::float_to_sen169(x); }
};
struct Sen169Bool {
  using S = uint16_t;
  using R = float;
  static R decode(S x) { return (x & 0x7FFF) != 0 ? 1.0f : 0.0f; }
  static S encode(R x) { return x != 0 ? 0x3E00 : 0; }
};
struct Fp32 {
  using S = float;
  using R = float;
  static R decode(S x) { return x; }
  static S encode(R x) { return x; }
};
struct Sen143 {
  using S = uint8_t;
  using R = float;
  static R decode(S x) { return layout::sen143_to_float(x); }
  static S encode(R x) { return layout::float_to_sen143(x); }
};
struct Sen152 {
  using S = uint8_t;
  using R = float;
  static R decode(S x) { return layout::sen152_to_float(x); }
  static S encode(R x) { return layout::float_to_sen152(x); }
};
template <class Stored, class Wrapped = Stored>
struct Integer {
  using S = Stored;
  using R = int64_t;
  static R decode(S x) { return static_cast<R>(x); }
  static S encode(R x) { return static_cast<S>(static_cast<Wrapped>(x)); }
};
using Int8 = Integer<int8_t>;
using Int16 = Integer<int16_t>;
using Int32 = Integer<int32_t>;
using Int64 = Integer<int64_t>;
using UInt8 = Integer<uint32_t, uint8_t>;

/// Decodes a run, and fetches what lies `ahead` of it: blocks come too short for the hardware to
/// see where they lead.
template <class C>
void load_run(typename C::R* lanes, const typename C::S* memory, int64_t n, int64_t ahead) {
  constexpr int64_t kLine = 64 / sizeof(typename C::S);
  int64_t i = 0;
  if (ahead != 0) {
    for (; i + kLine <= n; i += kLine) {
      __builtin_prefetch(memory + i + ahead);
      for (int64_t j = 0; j < kLine; ++j) lanes[i + j] = C::decode(memory[i + j]);
    }
  }
  for (; i < n; ++i) lanes[i] = C::decode(memory[i]);
}

template <class C>
void store_run(typename C::S* memory, const typename C::R* lanes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) memory[i] = C::encode(lanes[i]);
}

/// Whether the grid is one contiguous run.
bool is_run(const Grid& g) {
  return (g.cols == 1 || g.col_stride == 1) && (g.rows == 1 || g.row_stride == g.cols);
}

/// Transposes a square of float lanes: to[c] row r = from[r] row c.
constexpr int64_t kSquare = 16;
inline void transpose_square(float* to, int64_t to_pitch, const float* from, int64_t from_pitch) {
#if defined(CPU_CAPABILITY_AVX512)
  at::vec::transpose_mxn<float, kSquare, kSquare>(from, from_pitch, to, to_pitch);
#else
  for (int64_t r = 0; r < kSquare; ++r) {
    for (int64_t c = 0; c < kSquare; ++c) to[c * to_pitch + r] = from[r * from_pitch + c];
  }
#endif
}

/// Loads a grid that is contiguous along its rows' direction: decodes runs of a strip, then turns
/// it.
template <class C>
void load_turned(typename C::R* lanes, const typename C::S* memory, const Grid& g) {
  if constexpr (std::is_same_v<typename C::R, float>) {
    alignas(64) float strip[kSquare * kSquare];
    for (int64_t c = 0; c < g.cols; c += kSquare) {
      const int64_t c_count = std::min(kSquare, g.cols - c);
      for (int64_t r = 0; r < g.rows; r += kSquare) {
        const int64_t r_count = std::min(kSquare, g.rows - r);
        for (int64_t i = 0; i < c_count; ++i) {
          const auto* run = memory + (c + i) * g.col_stride + r;
          if (g.ahead != 0) __builtin_prefetch(run + g.ahead);
          if (r_count == kSquare) {
            for (int64_t j = 0; j < kSquare; ++j) strip[i * kSquare + j] = C::decode(run[j]);
          } else {
            for (int64_t j = 0; j < r_count; ++j) strip[i * kSquare + j] = C::decode(run[j]);
          }
        }
        float* to = lanes + r * g.cols + c;
        if (r_count == kSquare && c_count == kSquare) {
          transpose_square(to, g.cols, strip, kSquare);
        } else {
          for (int64_t j = 0; j < r_count; ++j) {
            for (int64_t i = 0; i < c_count; ++i) to[j * g.cols + i] = strip[i * kSquare + j];
          }
        }
      }
    }
  } else {
    for (int64_t c = 0; c < g.cols; ++c) {
      for (int64_t r = 0; r < g.rows; ++r)
        lanes[r * g.cols + c] = C::decode(memory[c * g.col_stride + r]);
    }
  }
}

/// Whether memory is walked better row by row inside columns.
bool is_transposed(const Grid& g) {
  return g.rows > 1 && std::abs(g.row_stride) < std::abs(g.col_stride);
}

template <class C>
void load(void* to, const void* from, const Grid& g) {
  auto* lanes = static_cast<typename C::R*>(to);
  const auto* memory = static_cast<const typename C::S*>(from);
  if (is_run(g)) {
    load_run<C>(lanes, memory, g.rows * g.cols, g.ahead);
  } else if (g.rows > 1 && g.row_stride == 0) {
    load<C>(lanes, memory, Grid{1, 0, g.cols, g.col_stride, g.ahead});
    for (int64_t r = 1; r < g.rows; ++r) {
      std::memcpy(lanes + r * g.cols, lanes, static_cast<size_t>(g.cols) * sizeof *lanes);
    }
  } else if (g.col_stride == 0) {
    for (int64_t r = 0; r < g.rows; ++r) {
      const auto value = C::decode(memory[r * g.row_stride]);
      for (int64_t c = 0; c < g.cols; ++c) lanes[r * g.cols + c] = value;
    }
  } else if (g.rows > 1 && g.row_stride == 1) {
    load_turned<C>(lanes, memory, g);
  } else if (is_transposed(g)) {
    for (int64_t c = 0; c < g.cols; ++c) {
      for (int64_t r = 0; r < g.rows; ++r) {
        lanes[r * g.cols + c] = C::decode(memory[c * g.col_stride + r * g.row_stride]);
      }
    }
  } else {
    for (int64_t r = 0; r < g.rows; ++r) {
      const auto* row = memory + r * g.row_stride;
      auto* out = lanes + r * g.cols;
      if (g.col_stride == 1) {
        load_run<C>(out, row, g.cols, g.ahead);
      } else {
        for (int64_t c = 0; c < g.cols; ++c) out[c] = C::decode(row[c * g.col_stride]);
      }
    }
  }
}

template <class C>
void store(void* to, const void* from, const Grid& g) {
  auto* memory = static_cast<typename C::S*>(to);
  const auto* lanes = static_cast<const typename C::R*>(from);
  if (is_run(g)) {
    store_run<C>(memory, lanes, g.rows * g.cols);
  } else if (is_transposed(g)) {
    for (int64_t c = 0; c < g.cols; ++c) {
      for (int64_t r = 0; r < g.rows; ++r) {
        memory[c * g.col_stride + r * g.row_stride] = C::encode(lanes[r * g.cols + c]);
      }
    }
  } else {
    for (int64_t r = 0; r < g.rows; ++r) {
      auto* row = memory + r * g.row_stride;
      const auto* in = lanes + r * g.cols;
      if (g.col_stride == 1) {
        store_run<C>(row, in, g.cols);
      } else {
        for (int64_t c = 0; c < g.cols; ++c) row[c * g.col_stride] = C::encode(in[c]);
      }
    }
  }
}

template <class C>
void fill(KernelTable& table, Codec codec) {
  table.load[static_cast<size_t>(codec)] = load<C>;
  table.store[static_cast<size_t>(codec)] = store<C>;
}

}  // namespace

void fill_memory(KernelTable& table) {
  fill<Sen169>(table, Codec::kSen169);
  fill<Sen169Bool>(table, Codec::kSen169Bool);
  fill<Fp32>(table, Codec::kFp32);
  fill<Sen143>(table, Codec::kSen143);
  fill<Sen152>(table, Codec::kSen152);
  fill<Int8>(table, Codec::kInt8);
  fill<Int16>(table, Codec::kInt16);
  fill<Int32>(table, Codec::kInt32);
  fill<Int64>(table, Codec::kInt64);
  fill<UInt8>(table, Codec::kUInt8);
}

}  // namespace spyre::softdev::CPU_CAPABILITY
