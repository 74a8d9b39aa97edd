// SPDX-License-Identifier: Apache-2.0
// Kernels of the ops on float lanes.
#include "softdev/kernels/float_ops.h"

namespace spyre::softdev::CPU_CAPABILITY {
namespace {

template <class Op>
void unary(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<float*>(dst);
  const auto* x = static_cast<const float*>(args[0]);
  int64_t i = 0;
  for (; i + V::size() <= n; i += V::size()) Op::apply(V::loadu(x + i)).store(d + i);
  if (i < n) Op::apply(V::loadu(x + i, n - i)).store(d + i, static_cast<int>(n - i));
}

template <class Op, Mode mode>
void binary(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<float*>(dst);
  const auto* x = static_cast<const float*>(args[0]);
  const auto* y = static_cast<const float*>(args[1]);
  const V x0(*x), y0(*y);
  auto left = [&](int64_t i) { return mode == Mode::kScalarLeft ? x0 : V::loadu(x + i); };
  auto right = [&](int64_t i) { return mode == Mode::kScalarRight ? y0 : V::loadu(y + i); };
  int64_t i = 0;
  for (; i + V::size() <= n; i += V::size()) Op::apply(left(i), right(i)).store(d + i);
  if (i < n) {
    const V a = mode == Mode::kScalarLeft ? x0 : V::loadu(x + i, n - i);
    const V b = mode == Mode::kScalarRight ? y0 : V::loadu(y + i, n - i);
    Op::apply(a, b).store(d + i, static_cast<int>(n - i));
  }
}

template <class Op>
void ternary(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<float*>(dst);
  const auto* x = static_cast<const float*>(args[0]);
  const auto* y = static_cast<const float*>(args[1]);
  const auto* z = static_cast<const float*>(args[2]);
  int64_t i = 0;
  for (; i + V::size() <= n; i += V::size()) {
    Op::apply(V::loadu(x + i), V::loadu(y + i), V::loadu(z + i)).store(d + i);
  }
  if (i < n) {
    const int64_t left = n - i;
    Op::apply(V::loadu(x + i, left), V::loadu(y + i, left), V::loadu(z + i, left))
        .store(d + i, static_cast<int>(left));
  }
}

/// Ops that have no vector form: lane by lane, and left to the compiler where it can.
template <class Op>
void unary_scalar(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<float*>(dst);
  const auto* x = static_cast<const float*>(args[0]);
  for (int64_t i = 0; i < n; ++i) d[i] = Op::apply(x[i]);
}

template <class Op, Mode mode>
void binary_scalar(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<float*>(dst);
  const auto* x = static_cast<const float*>(args[0]);
  const auto* y = static_cast<const float*>(args[1]);
  const float x0 = *x, y0 = *y;
  for (int64_t i = 0; i < n; ++i) {
    d[i] = Op::apply(mode == Mode::kScalarLeft ? x0 : x[i], mode == Mode::kScalarRight ? y0 : y[i]);
  }
}

}  // namespace

void fill_float_maps(KernelTable& table) {
#define X(name, text) map_slot(table, Op::name, Mode::kLanes) = unary<ops::name>;
  SPYRE_VECTOR_UNARY(X)
#undef X
#define X(name, text)                                                                    \
  map_slot(table, Op::name, Mode::kLanes) = binary<ops::name, Mode::kLanes>;             \
  map_slot(table, Op::name, Mode::kScalarRight) = binary<ops::name, Mode::kScalarRight>; \
  map_slot(table, Op::name, Mode::kScalarLeft) = binary<ops::name, Mode::kScalarLeft>;
  SPYRE_VECTOR_BINARY(X)
#undef X
#define X(name, text) map_slot(table, Op::name, Mode::kLanes) = unary_scalar<ops::name>;
  SPYRE_SCALAR_UNARY(X)
#undef X
#define X(name, text)                                                                           \
  map_slot(table, Op::name, Mode::kLanes) = binary_scalar<ops::name, Mode::kLanes>;             \
  map_slot(table, Op::name, Mode::kScalarRight) = binary_scalar<ops::name, Mode::kScalarRight>; \
  map_slot(table, Op::name, Mode::kScalarLeft) = binary_scalar<ops::name, Mode::kScalarLeft>;
  SPYRE_SCALAR_BINARY(X)
#undef X
  map_slot(table, Op::fma, Mode::kLanes) = ternary<ops::fma>;
}

}  // namespace spyre::softdev::CPU_CAPABILITY
