// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/indexed.h"

#include "torch/launch.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

void add_indexed(ProgramKey& key, const Indexed& indexed) {
  key.add(static_cast<int64_t>(indexed.tensor.scalar_type()));
  key.add(c10::ArrayRef<int64_t>(indexed.strides));
  for (const IndexTerm& term : indexed.terms) {
    key.add(static_cast<int64_t>(term.index.scalar_type()) << 1 | static_cast<int64_t>(term.wraps));
    key.add(c10::ArrayRef<int64_t>(term.strides));
    key.add(term.size);
    key.add(term.element_stride);
  }
}

/// The index registers of an access, before they become an address.
std::vector<Value> load_indices(StageBuilder& stage, const LoopOrder& loops, const Indexed& indexed,
                                const std::vector<int>& buffers) {
  std::vector<Value> indices;
  for (size_t i = 0; i < indexed.terms.size(); ++i) {
    const IndexTerm& term = indexed.terms[i];
    Value index = stage.load(stage.access(buffers[i], loops.select(term.strides)));
    if (term.wraps) index = where(index < 0, index + static_cast<double>(term.size), index);
    indices.push_back(index);
  }
  return indices;
}

Value address(StageBuilder& stage, const Indexed& indexed, const std::vector<Value>& indices) {
  Value result = stage.constant_i(0);
  for (size_t i = 0; i < indices.size(); ++i) {
    const IndexTerm& term = indexed.terms[i];
    const Value checked = stage.index_check(indices[i], term.size);
    result = result + checked * stage.constant_i(term.element_stride);
  }
  return result;
}

/// A number as it is: integers beyond 2^53 are not all doubles.
void add_number(ProgramKey& key, const c10::Scalar& number) {
  key.add(static_cast<int64_t>(number.isFloatingPoint()));
  if (number.isFloatingPoint()) {
    key.add(number.toDouble());
  } else {
    key.add(number.toLong());
  }
}

}  // namespace

void gather(const Call& call, const at::Tensor& out, const Indexed& from) {
  if (out.numel() == 0) return;
  static const char kTag = 0;
  const LoopOrder loops(out);
  ProgramKey key(&kTag);
  loops.add_to(key);
  loops.add_strides(key, out);
  add_indexed(key, from);
  c10::SmallVector<at::Tensor, 6> args{out, from.tensor};
  for (const IndexTerm& term : from.terms) args.push_back(term.index);
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    std::vector<int> buffers;
    for (const at::Tensor& arg : args) buffers.push_back(declare_arg(program, arg));
    StageBuilder& stage = program.stage("gather");
    loops.declare(stage);
    const int to = stage.access(buffers[0], loops.strides(out));
    const int source = stage.access(buffers[1], loops.select(from.strides));
    const std::vector<int> index_buffers(buffers.begin() + 2, buffers.end());
    const std::vector<Value> indices = load_indices(stage, loops, from, index_buffers);
    stage.store(to, stage.load(source, address(stage, from, indices)));
    return program.finish();
  };
  launch(*cached_program(key, build), args);
}

void scatter(const Call& call, const Indexed& to, const at::Tensor& shape, const Scatter& what) {
  if (shape.numel() == 0) return;
  static const char kTag = 0;
  const LoopOrder loops(shape);
  ProgramKey key(&kTag);
  loops.add_to(key);
  key.add(static_cast<int64_t>(what.mode));
  add_number(key, what.scale);
  add_indexed(key, to);
  c10::SmallVector<at::Tensor, 6> args{to.tensor};
  for (const IndexTerm& term : to.terms) args.push_back(term.index);
  if (what.source.defined()) {
    key.add(static_cast<int64_t>(what.source.scalar_type()));
    key.add(c10::ArrayRef<int64_t>(loops.select(what.strides)));
    args.push_back(what.source);
  } else {
    add_number(key, what.number);
  }
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    std::vector<int> buffers;
    for (const at::Tensor& arg : args) buffers.push_back(declare_arg(program, arg));
    StageBuilder& stage = program.stage("scatter");
    loops.declare(stage);
    const int target = stage.access(buffers[0], loops.select(to.strides));
    const std::vector<int> index_buffers(buffers.begin() + 1, buffers.end());
    const std::vector<Value> indices = load_indices(stage, loops, to, index_buffers);
    Value value = what.source.defined()
                      ? stage.load(stage.access(buffers.back(), loops.select(what.strides)))
                      : constant(stage, what.number, to.tensor.scalar_type());
    if (!what.scale.equal(1)) {
      value = what.scale.isFloatingPoint()
                  ? value * what.scale.toDouble()
                  : value * constant(stage, what.scale, to.tensor.scalar_type());
    }
    const Value where_to = address(stage, to, indices);
    if (what.mode == Scatter::Mode::kAdd) {
      stage.store_add(target, value, where_to);
    } else {
      stage.store(target, value, where_to);
    }
    return program.finish();
  };
  launch(*cached_program(key, build), args);
}

}  // namespace spyre::aten
