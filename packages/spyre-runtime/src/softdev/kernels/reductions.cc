// SPDX-License-Identifier: Apache-2.0
// Kernels that combine lanes. The order of combination depends on rows and cols alone.
#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <cmath>

#include "softdev/kernels/fill.h"

namespace spyre::softdev::CPU_CAPABILITY {
namespace {

using V = at::vec::Vectorized<float>;

/// Adds `x` to the accumulator and keeps what the addition lost in `*error`, so that a sum over
/// many blocks is as good as one over few. An infinite sum has no error to keep.
inline void add_compensated(float* acc, float* error, float x) {
  const float y = x - *error;
  const float sum = *acc + y;
  const float lost = (sum - *acc) - y;
  *error = std::isfinite(lost) ? lost : 0.0f;
  *acc = sum;
}

inline void add_compensated(float* acc, float* error, V x) {
  const V old = V::loadu(acc), y = x - V::loadu(error), sum = old + y;
  const V lost = (sum - old) - y;
  // Infinity and NaN leave no finite error: x - x is 0 for finite numbers only.
  V::blendv(V(0.0f), lost, (lost - lost) == V(0.0f)).store(error);
  sum.store(acc);
}

// Each float reduction: its vector step, its scalar step, its identity.
struct Sum {
  static constexpr float kIdentity = 0;
  static V apply(V a, V b) { return a + b; }
  static float apply(float a, float b) { return a + b; }
};
struct Prod {
  static constexpr float kIdentity = 1;
  static V apply(V a, V b) { return a * b; }
  static float apply(float a, float b) { return a * b; }
};
struct Max {  // NaN wins
  static constexpr float kIdentity = -INFINITY;
  static V apply(V a, V b) { return at::vec::maximum(a, b); }
  static float apply(float a, float b) { return a != a || a > b ? a : b; }
};
struct Min {
  static constexpr float kIdentity = INFINITY;
  static V apply(V a, V b) { return at::vec::minimum(a, b); }
  static float apply(float a, float b) { return a != a || a < b ? a : b; }
};

constexpr int64_t kWidth = V::size();

/// Whole vectors of a row: four accumulators, then a tree over them.
template <class Op>
V reduce_vectors(const float* x, int64_t n) {
  V a(Op::kIdentity), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    a = Op::apply(a, V::loadu(x + i));
    b = Op::apply(b, V::loadu(x + i + kWidth));
    c = Op::apply(c, V::loadu(x + i + 2 * kWidth));
    d = Op::apply(d, V::loadu(x + i + 3 * kWidth));
  }
  for (; i + kWidth <= n; i += kWidth) a = Op::apply(a, V::loadu(x + i));
  return Op::apply(Op::apply(a, b), Op::apply(c, d));
}

/// lanes[0] = a tree over kWidth of them.
template <class Op, class T>
void reduce_tree(T* lanes) {
  for (int64_t width = kWidth / 2; width > 0; width /= 2) {
    for (int64_t j = 0; j < width; ++j) lanes[j] = Op::apply(lanes[j], lanes[j + width]);
  }
}

/// One row: whole vectors, a tree over their lanes, then the tail in order.
template <class Op>
float reduce_run(const float* x, int64_t n) {
  int64_t i = 0;
  float result = Op::kIdentity;
  if (n >= kWidth) {
    alignas(64) float lanes[kWidth];
    reduce_vectors<Op>(x, n).store(lanes);
    reduce_tree<Op>(lanes);
    result = lanes[0];
    i = n / kWidth * kWidth;
  }
  for (; i < n; ++i) result = Op::apply(result, x[i]);
  return result;
}

#if defined(CPU_CAPABILITY_AVX512)
/// As many rows as a vector has lanes, of whole vectors: the same trees side by side.
template <class Op>
V reduce_rows(const float* x, int64_t n) {
  alignas(64) float lanes[kWidth * kWidth], turned[kWidth * kWidth];
  for (int64_t r = 0; r < kWidth; ++r) reduce_vectors<Op>(x + r * n, n).store(lanes + r * kWidth);
  at::vec::transpose_mxn<float, kWidth, kWidth>(lanes, kWidth, turned, kWidth);
  V tree[kWidth];
  for (int64_t j = 0; j < kWidth; ++j) tree[j] = V::loadu(turned + j * kWidth);
  reduce_tree<Op>(tree);
  return tree[0];
}
#endif

template <class Op>
void rows_float(void* acc, void* aux, const void* lanes, int64_t rows, int64_t cols,
                const Positions&) {
  auto* a = static_cast<float*>(acc);
  auto* error = static_cast<float*>(aux);
  const auto* x = static_cast<const float*>(lanes);
  int64_t r = 0;
#if defined(CPU_CAPABILITY_AVX512)
  for (; cols % kWidth == 0 && cols > 0 && r + kWidth <= rows; r += kWidth) {
    const V value = reduce_rows<Op>(x + r * cols, cols);
    if constexpr (std::is_same_v<Op, Sum>)
      add_compensated(a + r, error + r, value);
    else
      Op::apply(V::loadu(a + r), value).store(a + r);
  }
#endif
  for (; r < rows; ++r) {
    const float value = reduce_run<Op>(x + r * cols, cols);
    if constexpr (std::is_same_v<Op, Sum>)
      add_compensated(a + r, error + r, value);
    else
      a[r] = Op::apply(a[r], value);
  }
}

template <class Op>
void cols_float(void* acc, void* aux, const void* lanes, int64_t rows, int64_t cols,
                const Positions&) {
  auto* a = static_cast<float*>(acc);
  auto* error = static_cast<float*>(aux);
  const auto* x = static_cast<const float*>(lanes);
  if (rows == 0) return;
  auto combine = [&](int64_t c, float value) {
    if constexpr (std::is_same_v<Op, Sum>)
      add_compensated(a + c, error + c, value);
    else
      a[c] = Op::apply(a[c], value);
  };
  int64_t c = 0;
  for (; c + V::size() <= cols; c += V::size()) {
    V value = V::loadu(x + c);
    for (int64_t r = 1; r < rows; ++r) value = Op::apply(value, V::loadu(x + r * cols + c));
    if constexpr (std::is_same_v<Op, Sum>)
      add_compensated(a + c, error + c, value);
    else
      Op::apply(V::loadu(a + c), value).store(a + c);
  }
  for (; c < cols; ++c) {
    float value = x[c];
    for (int64_t r = 1; r < rows; ++r) value = Op::apply(value, x[r * cols + c]);
    combine(c, value);
  }
}

// Truth and integer reductions are exact, so any order will do.
struct SumI {
  static int64_t apply(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
struct ProdI {
  static int64_t apply(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct MaxI {
  static int64_t apply(int64_t a, int64_t b) { return a > b ? a : b; }
};
struct MinI {
  static int64_t apply(int64_t a, int64_t b) { return a < b ? a : b; }
};
struct XorI {
  static int64_t apply(int64_t a, int64_t b) { return a ^ b; }
};
struct Any {
  static float apply(float a, float b) { return a > b ? a : b; }
};
struct All {
  static float apply(float a, float b) { return a < b ? a : b; }
};

template <class T, class Op>
void rows_exact(void* acc, void*, const void* lanes, int64_t rows, int64_t cols, const Positions&) {
  auto* a = static_cast<T*>(acc);
  const auto* x = static_cast<const T*>(lanes);
  for (int64_t r = 0; r < rows; ++r) {
    T value = a[r];
    for (int64_t c = 0; c < cols; ++c) value = Op::apply(value, x[r * cols + c]);
    a[r] = value;
  }
}

template <class T, class Op>
void cols_exact(void* acc, void*, const void* lanes, int64_t rows, int64_t cols, const Positions&) {
  auto* a = static_cast<T*>(acc);
  const auto* x = static_cast<const T*>(lanes);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) a[c] = Op::apply(a[c], x[r * cols + c]);
  }
}

/// Whether (x, at) beats (best, best_at): NaN above all, then the value, then the lower position. A
/// position below 0 is that of no lane yet.
template <class T, bool kMax>
bool beats(T x, int64_t at, T best, int64_t best_at) {
  if (best_at < 0) return true;
  if (x != x) return best == best || at < best_at;
  if (best != best) return false;
  if (x == best) return at < best_at;
  return kMax ? x > best : x < best;
}

template <class T, bool kMax, bool kRows>
void arg(void* acc, void* aux, const void* lanes, int64_t rows, int64_t cols, const Positions& p) {
  auto* best = static_cast<T*>(acc);
  auto* best_at = static_cast<int64_t*>(aux);
  const auto* x = static_cast<const T*>(lanes);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t j = kRows ? r : c;
      const T value = x[r * cols + c];
      const int64_t at = p.position + r * (kRows ? 0 : p.row_step) + c * (kRows ? p.col_step : 0);
      if (beats<T, kMax>(value, at, best[j], best_at[j])) {
        best[j] = value;
        best_at[j] = at;
      }
    }
  }
}

void set(KernelTable& table, Op op, ReduceFn rows, ReduceFn cols) {
  table.reduce_rows[static_cast<size_t>(op)] = rows;
  table.reduce_cols[static_cast<size_t>(op)] = cols;
}

}  // namespace

void fill_reductions(KernelTable& t) {
  set(t, Op::reduce_sum, rows_float<Sum>, cols_float<Sum>);
  set(t, Op::reduce_prod, rows_float<Prod>, cols_float<Prod>);
  set(t, Op::reduce_max, rows_float<Max>, cols_float<Max>);
  set(t, Op::reduce_min, rows_float<Min>, cols_float<Min>);
  set(t, Op::reduce_sum_i, rows_exact<int64_t, SumI>, cols_exact<int64_t, SumI>);
  set(t, Op::reduce_prod_i, rows_exact<int64_t, ProdI>, cols_exact<int64_t, ProdI>);
  set(t, Op::reduce_max_i, rows_exact<int64_t, MaxI>, cols_exact<int64_t, MaxI>);
  set(t, Op::reduce_min_i, rows_exact<int64_t, MinI>, cols_exact<int64_t, MinI>);
  set(t, Op::reduce_xor_i, rows_exact<int64_t, XorI>, cols_exact<int64_t, XorI>);
  set(t, Op::reduce_any, rows_exact<float, Any>, cols_exact<float, Any>);
  set(t, Op::reduce_all, rows_exact<float, All>, cols_exact<float, All>);
  set(t, Op::reduce_argmax, arg<float, true, true>, arg<float, true, false>);
  set(t, Op::reduce_argmin, arg<float, false, true>, arg<float, false, false>);
  set(t, Op::reduce_argmax_i, arg<int64_t, true, true>, arg<int64_t, true, false>);
  set(t, Op::reduce_argmin_i, arg<int64_t, false, true>, arg<int64_t, false, false>);
}

}  // namespace spyre::softdev::CPU_CAPABILITY
