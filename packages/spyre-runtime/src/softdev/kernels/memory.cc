// SPDX-License-Identifier: Apache-2.0
// Loads and stores: decode elements of a storage format into lanes, encode lanes back.
#include <cstdlib>
#include <cstring>

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

template <class C>
void load_run(typename C::R* lanes, const typename C::S* memory, int64_t n) {
  for (int64_t i = 0; i < n; ++i) lanes[i] = C::decode(memory[i]);
}

template <class C>
void store_run(typename C::S* memory, const typename C::R* lanes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) memory[i] = C::encode(lanes[i]);
}

/// Whether the grid is one contiguous run.
bool is_run(const Grid& g) {
  return (g.cols == 1 || g.col_stride == 1) && (g.rows == 1 || g.row_stride == g.cols);
}

/// Whether memory is walked better row by row inside columns.
bool is_transposed(const Grid& g) { return g.rows > 1 && std::abs(g.row_stride) < std::abs(g.col_stride); }

template <class C>
void load(void* to, const void* from, const Grid& g) {
  auto* lanes = static_cast<typename C::R*>(to);
  const auto* memory = static_cast<const typename C::S*>(from);
  if (is_run(g)) {
    load_run<C>(lanes, memory, g.rows * g.cols);
  } else if (g.rows > 1 && g.row_stride == 0) {
    load<C>(lanes, memory, Grid{1, 0, g.cols, g.col_stride});
    for (int64_t r = 1; r < g.rows; ++r) {
      std::memcpy(lanes + r * g.cols, lanes, static_cast<size_t>(g.cols) * sizeof *lanes);
    }
  } else if (g.col_stride == 0) {
    for (int64_t r = 0; r < g.rows; ++r) {
      const auto value = C::decode(memory[r * g.row_stride]);
      for (int64_t c = 0; c < g.cols; ++c) lanes[r * g.cols + c] = value;
    }
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
        load_run<C>(out, row, g.cols);
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
