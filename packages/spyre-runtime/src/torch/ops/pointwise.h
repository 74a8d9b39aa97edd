// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>
#include <vector>

#include "torch/ops/call.h"
#include "torch/ops/value.h"

/// Pointwise operators: one row of a table each, one kernel for all.
namespace spyre::aten {

/// How the dtypes of operands and result relate.
enum class Rule : uint8_t {
  kPromote,          ///< computed and returned in the operands' common dtype
  kArithmetic,       ///< kPromote; a number beside half tensors is not rounded to half first
  kFloat,            ///< kPromote, with integers taken to the default dtype
  kFloatArithmetic,  ///< kFloat, with numbers as in kArithmetic
  kCompare,          ///< computed in the common dtype, returns bool
  kLogical,          ///< each operand taken to bool, returns bool
  kSame,             ///< tensors must have one dtype, which an out tensor must have too
  kSelf,             ///< computed in the dtype of the first argument
};

class PointwiseArgs;

/// A set of argument positions, as bits.
using Positions = uint32_t;
inline constexpr Positions k1 = 0b1, k2 = 0b11, k3 = 0b111;

struct PointwiseOp {
  const char*
      name;  ///< functional (or only) overload, without "aten::"; its variants are found by it
  Rule rule;
  const char* types;   ///< classes of dtypes computed in natively: f(loat) i(nteger) b(ool)
  Positions operands;  ///< arguments that promote and broadcast; the others are parameters
  Value (*body)(const PointwiseArgs&);
  /// Says no to arguments that the CPU should see (mostly to raise its error). `type` is the class
  /// of the computation's dtype.
  bool (*accepts)(const Call& call, char type) = nullptr;
  /// Operands that are conditions: bool, and no part in promotion.
  Positions conditions = 0;
  /// PyTorch gives a contiguous result, whatever the order of the last operand.
  bool is_result_contiguous = false;
};

/// The table; see pointwise_table.cc for how to add a row.
const std::vector<PointwiseOp>& pointwise_ops();

/// The kernel of a row. False: not for these dtypes or arguments.
bool run_pointwise(const PointwiseOp& op, Call& call);

/// What a body sees: `a[i]` is argument number i of the schema as a Value in the dtype of the
/// computation, be it a loaded operand, a number beside it or a scalar parameter.
class PointwiseArgs {
 public:
  PointwiseArgs(StageBuilder& stage, const Call& call, Positions positions, c10::ScalarType dtype,
                std::vector<Value> operands)
      : stage_(stage),
        call_(call),
        positions_(positions),
        dtype_(dtype),
        operands_(std::move(operands)) {}

  Value operator[](int position) const;
  StageBuilder& stage() const { return stage_; }
  /// Whether an optional argument is given.
  bool has(int position) const { return call_.has(position); }
  bool flag(int position) const { return call_[position].toBool(); }
  int64_t integer(int position) const { return call_[position].toInt(); }
  std::string_view text(int position) const;
  /// A scalar parameter as a number.
  double number(int position) const { return call_[position].toScalar().toDouble(); }
  /// Dtype of the computation.
  c10::ScalarType dtype() const { return dtype_; }
  /// `value` as a constant of the computation's dtype, rounded like a stored one.
  Value constant(double value) const;

 private:
  StageBuilder& stage_;
  const Call& call_;
  Positions positions_;
  c10::ScalarType dtype_;
  std::vector<Value> operands_;  // type N: absent
};

}  // namespace spyre::aten
