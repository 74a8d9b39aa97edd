// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/bound.h"
#include "softdev/kernels/kernels.h"

/// What the VM makes of a bound stage before it runs: kernels chosen, common work found once,
/// registers placed in an arena, loops as odometers.
namespace spyre::softdev {

using program::BoundStage;

/// Along which directions of a block a register varies. A register that varies along neither is one
/// number, and costs one.
enum Shape : uint8_t { kScalar = 0, kRows = 1, kCols = 2, kFull = 3 };
inline Shape operator|(Shape a, Shape b) {
  return static_cast<Shape>(static_cast<int>(a) | static_cast<int>(b));
}
inline Shape operator&(Shape a, Shape b) {
  return static_cast<Shape>(static_cast<int>(a) & static_cast<int>(b));
}

/// A register of a step: where it lies in the arena and how it varies.
struct Operand {
  uint32_t offset = 0;
  Shape shape = kScalar;
};

/// An op of a fused step: what it reads or writes besides the lanes that are held.
struct FusedPart {
  FusedKind kind{};
  From from{};
  bool is_product = false;  ///< kTake: the sums of the matrix product, where they are
  Op op{};
  FusedCode code{};
  int32_t access = -1;  ///< where it loads or stores; -1: `operand`, if anything
  Operand operand;

  bool reads_register() const {
    return (from == From::kLanes || from == From::kEach) && access < 0 && !is_product;
  }
  bool writes_register() const { return kind == FusedKind::kKeep && access < 0; }
};

struct Step {
  enum class Kind : uint8_t { kMap, kLoad, kStore, kSequence, kExpand, kReduce, kCheck, kFused };
  Kind kind{};
  Op op{};
  bool by_row = false;   ///< kMap: one call per row, as operands differ in shape
  bool masked = false;   ///< kLoad, kStore: has a predicate
  bool indexed = false;  ///< kLoad, kStore: has an index register, or the access is indexed
  uint8_t arity = 0;
  uint8_t bytes = 4;  ///< per lane of the result (of the value, for stores)
  MapFn map = nullptr;
  Operand dst;  ///< for stores: the lanes that are visited, in dst.shape
  Operand args[4];
  Operand index, predicate;  ///< with has_index / masked
  bool has_index = false;
  bool wrap = false;
  int32_t access = -1;
  uint32_t aux = 0;  ///< kReduce: arena offset of the auxiliary accumulators
  uint32_t acc = 0;  ///< kReduce: arena offset of the accumulators
  int64_t imm = 0;
  std::vector<FusedPart> fused;

  /// How many of `args` it reads.
  int reads() const {
    switch (kind) {
      case Kind::kMap: return arity;
      case Kind::kLoad:
      case Kind::kSequence:
      case Kind::kFused: return 0;
      default: return 1;
    }
  }
};

/// Constants, written once into every arena.
struct Constant {
  uint32_t offset;
  uint8_t bytes;
  float f;
  int64_t i;
};

struct PhasePlan {
  bool reduce = false;
  std::vector<Step> steps;
  std::vector<Step> reductions;  ///< those of `steps`, for initialising and combining accumulators
};

struct AccessPlan {
  int32_t buffer = -1;
  bool indexed = false;
  Codec codec{};
  int64_t bytes = 0;  ///< per element
  int64_t offset = 0;
  int64_t row_stride = 0, col_stride = 0;
  int64_t ahead = 0;  ///< from one block to the next
  int64_t host_elements = 0;
  std::vector<layout::Digit> digits;
};

/// One direction of an odometer: a loop, or the tiles of a loop that blocks cut.
struct Dim {
  enum class Kind : uint8_t { kLoop, kRowTiles, kColTiles };
  Kind kind = Kind::kLoop;
  int64_t count = 1;
  std::vector<int64_t> step;  ///< per access
};

struct StagePlan {
  const BoundStage* stage = nullptr;
  std::vector<AccessPlan> accesses;
  std::vector<PhasePlan> phases;
  std::vector<Constant> constants;
  std::vector<Dim> outer, inner;  ///< around a block: parallel ones, reduce ones
  int64_t units = 1;              ///< blocks of the parallel loops
  int64_t reduce_steps = 1;       ///< blocks of the reduce loops; 0 if they are empty
  int64_t row_extent = 1, col_extent = 1;
  size_t arena_bytes = 0;
  Operand product;             ///< matmul: register of the dot
  FusedPart scale;             ///< matmul: what scales the sums, in fused steps
  bool keeps_product = false;  ///< some step reads it from there
  bool any_rows = false;       ///< no register has rows: a block may have any number of them
  bool horizontal = false;
  double cost_ns = 0;  ///< on one thread
};

StagePlan plan_stage(const program::BoundProgram& program, const BoundStage& stage);

}  // namespace spyre::softdev
