// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "spyre/program/op_table.h"
#include "spyre/program/program.h"

/// How eager kernels write device programs: `ProgramBuilder` holds buffers and stages,
/// `StageBuilder` a loop nest, and a `Value` a register that arithmetic operators and the functions
/// of value.h work on.
namespace spyre::aten {

using program::Op;
using program::Type;

class StageBuilder;

/// A register of a stage under construction. Operators pick the float, integer or truth variant of
/// an op by the registers' types, converting the narrower side.
struct Value {
  StageBuilder* stage = nullptr;
  int reg = -1;
  Type type = Type::N;
  std::optional<double> constant;  ///< its value, if known; lets `1 * x` vanish

  bool is_constant(double value) const { return constant && *constant == value; }
};

class StageBuilder {
 public:
  explicit StageBuilder(program::Program& program) : program_(program) {}

  /// Adds a loop, parallel ones first; returns its number.
  int loop(int64_t extent, bool reduce = false);
  /// Adds an access with one stride per loop of the stage, in host elements.
  int access(int buffer, std::vector<int64_t> stride, int64_t offset = 0);
  /// Starts the next phase.
  void phase(bool reduce = false);

  /// `index`: I value, host elements added to the address; `predicate`: B value, 0 gives 0.
  Value load(int access, std::optional<Value> index = {}, std::optional<Value> predicate = {});
  /// Stores, converting to the register type of the buffer's dtype.
  void store(int access, Value value, std::optional<Value> index = {},
             std::optional<Value> predicate = {});
  void store_add(int access, Value value, std::optional<Value> index = {},
                 std::optional<Value> predicate = {});

  Value constant_f(double value);
  Value constant_i(int64_t value);
  /// Index of a loop.
  Value iota(int loop);
  /// `index`, proven to be in [0, size): outside it an IndexError is raised at the next
  /// synchronisation.
  Value index_check(Value index, int64_t size);
  Value emit(Op op, std::initializer_list<Value> args);
  /// As type `to`; a float becomes an integer of `dtype` by truncation.
  Value convert(Value value, Type to, program::HostDtype dtype = program::HostDtype::kInt64);

  /// Drops instructions without use and numbers registers anew; called by ProgramBuilder::finish().
  program::Stage finish();
  size_t loop_count() const { return stage_.loops.size(); }
  void set_name(std::string name) { stage_.name = std::move(name); }

 private:
  program::Instr& append(Op op, int dst);
  program::HostDtype dtype_of(int access) const;
  void append_store(Op op, int access, Value value, std::optional<Value> index,
                    std::optional<Value> predicate);

  program::Program& program_;
  program::Stage stage_;
  std::vector<std::vector<int64_t>> strides_;
  int next_register_ = 0;
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name) { program_.name = std::move(name); }

  /// Declares the next argument. Its number is its position among launch()'s tensors.
  int arg(program::HostDtype dtype, const std::vector<int64_t>& size,
          const std::vector<int64_t>& stride);
  /// Device memory that lives as long as one launch, with dense_strides.
  int temp(program::HostDtype dtype, const std::vector<int64_t>& size);
  StageBuilder& stage(std::string name);
  program::Program finish();

 private:
  int buffer(program::BufferKind kind, program::HostDtype dtype, const std::vector<int64_t>& size,
             const std::vector<int64_t>& stride);
  program::Program program_;
  std::deque<StageBuilder> stages_;
};

/// Strides of a tensor without gaps whose last dimension is the innermost.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& size);

/// The register type that a buffer of this dtype is loaded into.
Type register_type(program::HostDtype dtype);

}  // namespace spyre::aten
