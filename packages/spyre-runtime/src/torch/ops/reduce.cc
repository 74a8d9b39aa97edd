// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/reduce.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtilsMulti.h>

#include <algorithm>
#include <bitset>
#include <cmath>

#include "torch/launch.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {

using c10::ScalarType;
using Results = ReduceOp::Results;
using DimSet = std::bitset<at::dim_bitset_size>;

namespace {

/// The dimensions that an op's `dim` argument means; nullopt if the CPU should see it.
std::optional<DimSet> reduced_dims(const Call& call, int64_t rank) {
  const int position = call.find("dim");
  if (position < 0 || !call.has(position)) return DimSet().set();
  const c10::IValue& dim = call[position];
  if (dim.isInt()) return at::dim_list_to_bitset({dim.toInt()}, rank);
  const std::vector<int64_t> dims = dim.toIntVector();
  if (!dims.empty()) return at::dim_list_to_bitset(dims, rank);
  // An empty list means all dimensions, but none for any() and all().
  if (call.signature().name.find(".dims") != std::string::npos) return std::nullopt;
  return DimSet().set();
}

ScalarType result_dtype(const ReduceOp& op, const Call& call, ScalarType self) {
  if (op.rule == ReduceRule::kTruth) {
    return self == ScalarType::Byte ? ScalarType::Byte : ScalarType::Bool;
  }
  if (const int position = call.find("dtype"); position >= 0 && call.has(position)) {
    return call[position].toScalarType();
  }
  if (op.rule == ReduceRule::kSum && c10::isIntegralType(self, true)) return ScalarType::Long;
  return self;
}

/// How an input's dimensions become loops.
struct Geometry {
  DimSet reduced;
  std::vector<int64_t> kept_dims, reduce_dims;  ///< of extent other than 1
  std::vector<int64_t> shape;                   ///< of the result
  std::vector<int64_t> result_dims;             ///< dimension of the result for each kept dim
  int64_t count = 1;

  Geometry(const at::Tensor& self, DimSet set, bool keep, bool in_order) : reduced(set) {
    for (int64_t dim = 0; dim < self.dim(); ++dim) {
      const int64_t extent = self.size(dim);
      if (reduced[dim]) {
        count *= extent;
        if (extent != 1) reduce_dims.push_back(dim);
        if (keep) shape.push_back(1);
      } else {
        if (extent != 1) {
          kept_dims.push_back(dim);
          result_dims.push_back(static_cast<int64_t>(shape.size()));
        }
        shape.push_back(extent);
      }
    }
    if (in_order) return;
    std::stable_sort(reduce_dims.begin(), reduce_dims.end(),
                     [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
  }

  std::vector<int64_t> input_strides(const at::Tensor& self) const {
    std::vector<int64_t> strides;
    for (int64_t dim : kept_dims) strides.push_back(self.stride(dim));
    for (int64_t dim : reduce_dims) strides.push_back(self.stride(dim));
    if (reduce_dims.empty()) strides.push_back(0);
    return strides;
  }

  std::vector<int64_t> result_strides(const at::Tensor& result) const {
    std::vector<int64_t> strides;
    for (int64_t dim : result_dims) strides.push_back(result.stride(dim));
    strides.resize(kept_dims.size() + std::max<size_t>(reduce_dims.size(), 1), 0);
    return strides;
  }
};

std::vector<ScalarType> result_dtypes(const ReduceOp& op, ScalarType first) {
  switch (op.results) {
    case Results::kOne: return {first};
    case Results::kTwo: return {first, first};
    case Results::kIndex: return {ScalarType::Long};
    default: return {first, ScalarType::Long};
  }
}

}  // namespace

bool run_reduce(const ReduceOp& op, Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_spyre(self) || self.is_complex()) return false;
  const std::optional<DimSet> dims = reduced_dims(call, self.dim());
  if (!dims) return false;
  const int keep_position = call.find("keepdim");
  const bool keep = keep_position >= 0 && call[keep_position].toBool();
  const bool has_index = op.results == Results::kIndex || op.results == Results::kValueAndIndex;
  const Geometry geometry(self, *dims, keep, /*in_order=*/has_index);
  const ScalarType result = result_dtype(op, call, self.scalar_type());
  const ScalarType compute = op.rule == ReduceRule::kTruth ? ScalarType::Bool : result;
  const char type = type_class(compute);
  if (type == 0 || std::string_view(op.types).find(type) == std::string_view::npos) return false;
  if (geometry.count == 0 || (op.accepts != nullptr && !op.accepts(call, geometry.count))) {
    return false;
  }

  const std::vector<ScalarType> dtypes = result_dtypes(op, result);
  if (!call.outputs_are(self.device(), dtypes)) return false;
  std::vector<OutTensor> outs;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const at::Tensor out = call.output(static_cast<int>(i));
    if (out.defined()) {
      resize_out(out, geometry.shape);
      if (op.refuses_overlap) at::assert_no_overlap(out, self);
      outs.emplace_back(out, self);
    } else {
      outs.emplace_back(empty(geometry.shape, dtypes[i], self.device()));
    }
  }
  c10::SmallVector<at::Tensor, 3> args;
  std::vector<at::Tensor> results, stored;
  for (const OutTensor& out : outs) {
    results.push_back(out.result());
    stored.push_back(out.stored());
    args.push_back(out.stored());
  }
  if (results[0].numel() == 0) {
    call.finish(std::move(results));
    return true;
  }
  args.push_back(self);

  ProgramKey key(&op);
  key.add(static_cast<int64_t>(self.scalar_type()) << 16 | static_cast<int64_t>(compute) << 8 |
          static_cast<int64_t>(result));
  for (int64_t dim : geometry.kept_dims) key.add(self.size(dim));
  key.add(int64_t{-1});
  for (int64_t dim : geometry.reduce_dims) key.add(self.size(dim));
  key.add(c10::ArrayRef<int64_t>(geometry.input_strides(self)));
  for (const at::Tensor& out : stored) {
    key.add(c10::ArrayRef<int64_t>(geometry.result_strides(out)));
  }
  for (const char* name : {"correction", "ord"}) {
    if (const int position = call.find(name); position >= 0 && call.has(position)) {
      key.add(call[position].toScalar().toDouble());
    }
  }
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    std::vector<int> out_buffers;
    for (const at::Tensor& out : stored) out_buffers.push_back(declare_arg(program, out));
    const int input = declare_arg(program, self);
    StageBuilder& stage = program.stage(op.name);
    for (int64_t dim : geometry.kept_dims) stage.loop(self.size(dim));
    for (int64_t dim : geometry.reduce_dims) stage.loop(self.size(dim), /*reduce=*/true);
    if (geometry.reduce_dims.empty()) stage.loop(1, /*reduce=*/true);
    const int access = stage.access(input, geometry.input_strides(self));
    const std::vector<Value> values =
        op.body({stage, call, access, self.scalar_type(), compute, geometry.count});
    for (size_t i = 0; i < values.size(); ++i) {
      const int out = stage.access(out_buffers[i], geometry.result_strides(stored[i]));
      stage.store(out, values[i]);
    }
    return program.finish();
  };
  launch(*cached_program(key, build), args);
  for (const OutTensor& out : outs) out.settle();
  call.finish(std::move(results));
  return true;
}

Value ReduceArgs::load() const {
  stage.phase(/*reduce=*/true);
  return cast(stage.load(access), input, compute);
}

Value ReduceArgs::load_with_infinities() const {
  const Value x = load();
  return is_sen169(compute) && x.type == Type::F ? stage.emit(Op::inf_from_sen169, {x}) : x;
}

double ReduceArgs::number(const char* argument, double if_none) const {
  const int position = call.find(argument);
  return position >= 0 && call.has(position) ? call[position].toScalar().toDouble() : if_none;
}

}  // namespace spyre::aten
