// SPDX-License-Identifier: Apache-2.0
// Fused steps: lanes stay in vector registers from op to op. Each op is a function that gets them
// as arguments and calls the next one last, which is a jump where the calling convention passes
// vectors in registers.
#include "softdev/kernels/fused.h"

#include <utility>

#include "softdev/kernels/float_ops.h"
#include "softdev/kernels/sen169_lanes.h"

namespace spyre::softdev::CPU_CAPABILITY {
namespace {

template <size_t>
using Lanes = V;

template <int kForm, bool kWhole, class Index>
struct Form;

/// One form of all ops: on as many vectors as there are k, with kWhole all of their lanes.
template <int kForm, bool kWhole, size_t... k>
struct Form<kForm, kWhole, std::index_sequence<k...>> {
  using Fn = void (*)(const FusedOp*, int64_t row, int64_t col, int64_t count, Lanes<k>... x);
  static constexpr int64_t kLanes = static_cast<int64_t>(sizeof...(k)) * kWidth;

  static void next(const FusedOp* op, int64_t row, int64_t col, int64_t count, Lanes<k>... x) {
    return reinterpret_cast<Fn>(op[1].code.form[kForm])(op + 1, row, col, count, x...);
  }

  template <From from>
  static V y(const std::byte* row, int64_t col, int64_t count, size_t vector, V x) {
    const int64_t at = col + static_cast<int64_t>(vector) * kWidth;
    if constexpr (from == From::kLanes) {
      const float* lanes = reinterpret_cast<const float*>(row) + at;
      return kWhole ? V::loadu(lanes) : V::loadu(lanes, count);
    } else if constexpr (from == From::kEach) {
      return V(*reinterpret_cast<const float*>(row));
    } else if constexpr (from == From::kSen169) {
      return decode(reinterpret_cast<const uint16_t*>(row) + at, kWhole ? kWidth : count);
    } else {
      return x;
    }
  }

  /// Fetches what will be read next: blocks come too short for the hardware to see where they lead.
  template <From from>
  static void fetch(const FusedOp* op, const std::byte* row, int64_t col) {
    constexpr int64_t kBytes = from == From::kSen169 ? 2 : from == From::kLanes ? 4 : 0;
    if (kBytes == 0 || op->ahead == 0) return;
    const std::byte* ahead = row + op->ahead + col * kBytes;
    for (int64_t byte = 0; byte < kLanes * kBytes; byte += 64) __builtin_prefetch(ahead + byte);
  }

  static void end(const FusedOp*, int64_t, int64_t, int64_t, Lanes<k>...) {}

  template <From from>
  static void take(const FusedOp* op, int64_t row, int64_t col, int64_t count, Lanes<k>... x) {
    const std::byte* at = op->at + row * op->pitch;
    fetch<from>(op, at, col);
    return next(op, row, col, count, y<from>(at, col, count, k, x)...);
  }

  template <class Op>
  static void unary(const FusedOp* op, int64_t row, int64_t col, int64_t count, Lanes<k>... x) {
    return next(op, row, col, count, Op::apply(x)...);
  }

  template <class Op, From from>
  static void binary(const FusedOp* op, int64_t row, int64_t col, int64_t count, Lanes<k>... x) {
    const std::byte* at = op->at + row * op->pitch;
    fetch<from>(op, at, col);
    return next(op, row, col, count, Op::apply(x, y<from>(at, col, count, k, x))...);
  }

  template <class Op, From from>
  static void binary_left(const FusedOp* op, int64_t row, int64_t col, int64_t count,
                          Lanes<k>... x) {
    const std::byte* at = op->at + row * op->pitch;
    fetch<from>(op, at, col);
    return next(op, row, col, count, Op::apply(y<from>(at, col, count, k, x), x)...);
  }

  static void keep(const FusedOp* op, int64_t row, int64_t col, int64_t count, Lanes<k>... x) {
    float* to = reinterpret_cast<float*>(op->at + row * op->pitch) + col;
    (x.store(to + k * kWidth, static_cast<int>(kWhole ? kWidth : count)), ...);
    return next(op, row, col, count, x...);
  }

  template <bool kInfinite>
  static void encode_all(const FusedOp* op, int64_t row, int64_t col, int64_t count,
                         Lanes<k>... x) {
    uint16_t* to = reinterpret_cast<uint16_t*>(op->at + row * op->pitch) + col;
    for (int64_t lane = 0; lane < kLanes; lane += 32) __builtin_prefetch(to + kLanes + lane, 1);
    (encode<kInfinite>(to + k * kWidth, x, kWhole ? kWidth : count), ...);
    return next(op, row, col, count, x...);
  }

  template <From from>
  static Fn with_operand(FusedKind kind, Op op) {
    if (kind == FusedKind::kTake) return take<from>;
    const bool left = kind == FusedKind::kMapLeft;
    switch (op) {
#define X(name) \
  case Op::name: return left ? binary_left<ops::name, from> : binary<ops::name, from>;
      SPYRE_FUSED_BINARY(X)
#undef X
      default: return nullptr;
    }
  }

  static Fn code(FusedKind kind, From from, Op op) {
    if (kind == FusedKind::kEnd) return end;
    if (kind == FusedKind::kKeep) return keep;
    if (kind == FusedKind::kEncode) return encode_all<false>;
    if (kind == FusedKind::kEncodeInfinite) return encode_all<true>;
    switch (from) {
      case From::kX: return with_operand<From::kX>(kind, op);
      case From::kLanes: return with_operand<From::kLanes>(kind, op);
      case From::kEach: return with_operand<From::kEach>(kind, op);
      case From::kSen169: return with_operand<From::kSen169>(kind, op);
      case From::kNone: break;
    }
    switch (op) {
#define X(name) \
  case Op::name: return unary<ops::name>;
      SPYRE_FUSED_UNARY(X)
#undef X
      default: return nullptr;
    }
  }

  static void run(const FusedOp* ops, int64_t row, int64_t col, int64_t count) {
    reinterpret_cast<Fn>(ops[0].code.form[kForm])(ops, row, col, count, ((void)k, V())...);
  }
};

using Eight = Form<0, true, std::make_index_sequence<8>>;
using Four = Form<1, true, std::make_index_sequence<4>>;
using One = Form<2, true, std::make_index_sequence<1>>;
using Part = Form<3, false, std::make_index_sequence<1>>;

FusedCode fused_code(FusedKind kind, From from, Op op) {
  using Any = void (*)();
  return {{reinterpret_cast<Any>(Eight::code(kind, from, op)),
           reinterpret_cast<Any>(Four::code(kind, from, op)),
           reinterpret_cast<Any>(One::code(kind, from, op)),
           reinterpret_cast<Any>(Part::code(kind, from, op))}};
}

void fused(const FusedOp* ops, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    int64_t col = 0;
    for (; col + Eight::kLanes <= cols; col += Eight::kLanes) Eight::run(ops, r, col, kWidth);
    for (; col + Four::kLanes <= cols; col += Four::kLanes) Four::run(ops, r, col, kWidth);
    for (; col + One::kLanes <= cols; col += One::kLanes) One::run(ops, r, col, kWidth);
    if (col < cols) Part::run(ops, r, col, cols - col);
  }
#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX2)
  // A function that gets vectors leaves this to its callers; without it, every instruction outside
  // the kernels that touches a vector register waits for what was last computed in it.
  _mm256_zeroupper();
#endif
}

}  // namespace

void fill_fused(KernelTable& table) {
  table.fused_code = fused_code;
  table.fused = fused;
}

}  // namespace spyre::softdev::CPU_CAPABILITY
