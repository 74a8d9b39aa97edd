// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "spyre/program/op_table.h"

namespace spyre::softdev {

// Ops that fused steps may hold: those that cost no more than a pass over memory or two.
// clang-format off
#define SPYRE_FUSED_UNARY(X)                                                              \
  X(neg) X(abs) X(sign) X(exp) X(sqrt) X(rsqrt) X(reciprocal) X(tanh) X(sigmoid) X(relu)  \
  X(silu) X(gelu) X(gelu_tanh) X(inf_from_sen169) X(inf_to_sen169) X(isinf_sen169)
#define SPYRE_FUSED_BINARY(X)                                                   \
  X(add) X(sub) X(mul) X(div) X(maximum) X(minimum) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
// clang-format on

inline bool can_fuse(program::Op op) {
  switch (op) {
#define X(name) case program::Op::name:
    SPYRE_FUSED_UNARY(X)
    SPYRE_FUSED_BINARY(X)
#undef X
    return true;
    default: return false;
  }
}

inline constexpr int kMaxFusedOps = 32;

/// What a fused op does with the lanes x that are held in vector registers.
enum class FusedKind : uint8_t {
  kEnd,             ///< nothing: the last one
  kTake,            ///< x = y
  kMap,             ///< x = op(x) or op(x, y)
  kMapLeft,         ///< x = op(y, x)
  kKeep,            ///< writes x to float lanes
  kEncode,          ///< writes x to SEN169 codes
  kEncodeInfinite,  ///< writes inf_to_sen169(x) to SEN169 codes
};

/// Where y comes from.
enum class From : uint8_t {
  kNone,
  kX,
  kLanes,   ///< float lanes
  kEach,    ///< one float per row, or for all
  kSen169,  ///< codes
};

/// Code of a fused op, for as many vectors of lanes as it has a form.
struct FusedCode {
  static constexpr int kForms = 4;
  void (*form[kForms])();
};

struct FusedOp {
  FusedCode code;
  std::byte* at;  ///< of what it reads or writes, in the first row
  int64_t pitch;  ///< bytes from row to row
  int64_t ahead;  ///< bytes to what will be read next, so that it may be fetched; or 0
};

using FusedCodeFn = FusedCode (*)(FusedKind kind, From from, program::Op op);
/// Does ops[0] to the kEnd among them, on a few vectors of each row at a time.
using FusedFn = void (*)(const FusedOp* ops, int64_t rows, int64_t cols);

}  // namespace spyre::softdev
