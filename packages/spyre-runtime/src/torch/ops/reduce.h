// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "torch/ops/call.h"
#include "torch/ops/types.h"

/// Reductions over dimensions: one row of a table each, one kernel for all.
namespace spyre::aten {

enum class ReduceRule : uint8_t {
  kSame,   ///< the result has the input's dtype, or argument `dtype`
  kSum,    ///< like kSame, integers and bool become int64
  kTruth,  ///< bool, of uint8 uint8
};

/// What a body sees: it loads the input in reduce phases, and returns the results in a phase
/// without.
class ReduceArgs {
 public:
  StageBuilder& stage;
  const Call& call;
  int access;               ///< of the input
  c10::ScalarType input;    ///< dtype of the input
  c10::ScalarType compute;  ///< dtype that it is taken to first
  int64_t count;            ///< elements reduced into one

  /// The input's element, in a new reduce phase.
  Value load() const;
  /// The same with a half's infinities as IEEE's, so that those of two signs cancel to NaN; three
  /// more instructions for each element.
  Value load_with_infinities() const;
  /// Starts a phase without reduce loops.
  void finish() const { stage.phase(); }
  double number(const char* argument, double if_none) const;
};

struct ReduceOp {
  const char* name;
  ReduceRule rule;
  const char* types;  ///< classes of the computation's dtype
  std::vector<Value> (*body)(const ReduceArgs&);
  /// Dtypes of results beyond the first (and of the first, where the rule does not say).
  enum class Results : uint8_t { kOne, kTwo, kIndex, kValueAndIndex } results = Results::kOne;
  bool (*accepts)(const Call& call, int64_t count) = nullptr;
  /// Whether PyTorch refuses an out tensor that overlaps the input. One that overlaps itself is
  /// always refused here, also where the CPU leaves some of the results in it.
  bool refuses_overlap = false;
};

const std::vector<ReduceOp>& reduce_ops();

/// The kernel of a row. False: not for these dtypes or arguments.
bool run_reduce(const ReduceOp& op, Call& call);

}  // namespace spyre::aten
