// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// What the CPU fallback must know of an operator beyond its schema: one table, looked up once for
/// each operator.
namespace spyre::aten {

/// Operators that run on the host from end to end, not operator by operator of what they are made
/// of.
enum class Whole : uint8_t {
  kNever,
  /// Composed by PyTorch, with a helper inside of a dtype that the device does not have (float64,
  /// complex): on the host if the device refuses the helper.
  kWhenRefused,
  /// The same, and if a gradient is wanted, on the host with its derivative, which has such a
  /// helper too or solves what float32 on the device is too coarse for.
  kWithDerivative,
};

/// Dtypes that an operator is computed in float32 for on the host, and its results cast back.
enum class InFloat32 : uint8_t { kNever, kHalves, kHalvesAndIntegers };

/// Arguments that a CPU kernel writes although its schema does not say so.
struct UnmarkedWrites {
  int8_t first = -1;
  int8_t last = -2;
  int8_t condition = -1;  ///< a bool argument: written only if true
};

struct OperatorTraits {
  /// All overloads of this operator; with a * at its end, of all operators that begin so.
  std::string_view name;
  Whole whole = Whole::kNever;
  InFloat32 in_float32 = InFloat32::kNever;
  /// A random fill: numbers come from the generator on the host, equal to the CPU's for equal
  /// seeds. That is how the device does it, not a missing kernel: nothing to warn of or forbid.
  bool is_drawn_on_host = false;
  /// Argument that is the lower end of a half-open interval that numbers are drawn from, or -1.
  int8_t lower_bound = -1;
  UnmarkedWrites unmarked_writes = {};
  /// Name of the operator that the CPU has instead.
  const char* host_name = nullptr;
  /// Makes that one's arguments; they start at `begin`.
  void (*adapt)(torch::jit::Stack& stack, size_t begin) = nullptr;
};

/// An operator as the fallback meets it.
struct OperatorRecord {
  std::string name;       ///< "aten::add.out"
  std::string label;      ///< for the profiler
  OperatorTraits traits;  ///< defaults where the table says nothing
};

/// Thread-safe; the record lives for ever.
const OperatorRecord& record_of(const c10::OperatorHandle& op);

/// Traits by name without overload.
const OperatorTraits& traits_of(std::string_view name);

/// Whether the host computes a tensor of this dtype in float32 for the operator.
bool wants_float32(const OperatorTraits& traits, c10::ScalarType dtype);

}  // namespace spyre::aten
