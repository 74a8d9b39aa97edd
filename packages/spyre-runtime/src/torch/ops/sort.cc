// SPDX-License-Identifier: Apache-2.0
// Sorting by a network of compare-and-exchange steps, each a stage over all pairs. Positions break
// ties, so that every sort is stable.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>

#include <array>
#include <bit>
#include <limits>

#include "torch/launch.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;
using program::HostDtype;

// Beyond this the steps, log2(n) squared of them, cost more than a trip to the host and back.
constexpr int64_t kLongest = 4096;
// With so many rows, lanes run across them.
constexpr int64_t kManyRows = 32;

struct Sort {
  at::Tensor self;
  int64_t dim;
  bool is_descending;
  int64_t kept;  ///< how many of the first ones
};

struct Element {
  Value key, position;
};

/// Whether a comes before b. NaN counts as the largest.
Value precedes(Element a, Element b, bool is_descending) {
  Value first = is_descending ? a.key > b.key : a.key < b.key;
  Value is_tie = a.key == b.key;
  if (a.key.type == Type::F) {
    const Value a_nan = isnan(a.key), b_nan = isnan(b.key);
    first = first | (is_descending ? a_nan & !b_nan : b_nan & !a_nan);
    is_tie = is_tie | (a_nan & b_nan);
  }
  return first | (is_tie & (a.position < b.position));
}

class Network {
 public:
  Network(ProgramBuilder& program, const Sort& sort) : program_(program), sort_(sort) {
    const at::Tensor& self = sort.self;
    length_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(self.size(sort.dim))));
    key_type_ = type_class(self.scalar_type()) == 'f' ? Type::F : Type::I;
    const bool across = self.numel() / self.size(sort.dim) >= kManyRows;
    int64_t stride = across ? 1 : length_;
    rows_ = to_vector(self.sizes());
    row_stride_.assign(rows_.size(), 0);
    for (size_t d = rows_.size(); d-- > 0;) {
      if (static_cast<int64_t>(d) == sort.dim) continue;
      row_stride_[d] = stride;
      stride *= rows_[d];
    }
    rows_[sort.dim] = 1;
    stride_ = across ? stride : 1;
    const std::vector<int64_t> size{across ? stride * length_ : stride};
    const HostDtype key = key_type_ == Type::F ? HostDtype::kFloat32 : HostDtype::kInt64;
    for (int i = 0; i < 2; ++i)
      buffers_[i] = {program.temp(key, size), program.temp(HostDtype::kInt64, size)};
  }

  void run(int from, const at::Tensor& values, int values_buffer, const at::Tensor& indices,
           int indices_buffer) {
    take(from);
    for (int64_t block = 2; block <= length_; block *= 2) {
      // Both halves are sorted: compare each with its mirror image, then merge within the halves.
      exchange(block, block / 2, block - 1, -1);
      for (int64_t half = block / 4; half > 0; half /= 2) exchange(half * 2, half, half, 1);
    }
    StageBuilder& stage = program_.stage("give");
    declare_rows(stage);
    stage.loop(sort_.kept);
    const Element e = load(stage, walk({stride_}));
    auto to = [&](const at::Tensor& out) {
      std::vector<int64_t> strides = to_vector(out.strides());
      strides[sort_.dim] = 0;
      strides.push_back(out.stride(sort_.dim));
      return strides;
    };
    stage.store(stage.access(values_buffer, to(values)), e.key);
    stage.store(stage.access(indices_buffer, to(indices)), e.position);
  }

 private:
  void declare_rows(StageBuilder& stage) const {
    for (int64_t extent : rows_) stage.loop(extent);
  }
  /// Strides in the temporaries: of the rows, then of the other loops.
  std::vector<int64_t> walk(std::initializer_list<int64_t> others) const {
    std::vector<int64_t> strides = row_stride_;
    strides.insert(strides.end(), others);
    return strides;
  }
  Element load(StageBuilder& stage, const std::vector<int64_t>& strides, int64_t offset = 0) const {
    const auto& [keys, positions] = buffers_[now_];
    return {stage.load(stage.access(keys, strides, offset)),
            stage.load(stage.access(positions, strides, offset))};
  }
  void store(StageBuilder& stage, Element e, const std::vector<int64_t>& strides,
             int64_t offset = 0) const {
    const auto& [keys, positions] = buffers_[1 - now_];
    stage.store(stage.access(keys, strides, offset), e.key);
    stage.store(stage.access(positions, strides, offset), e.position);
  }

  /// Keys and positions, filled up with what comes after everything.
  void take(int from) {
    const at::Tensor& self = sort_.self;
    const int64_t count = self.size(sort_.dim);
    const int index = static_cast<int>(rows_.size());
    StageBuilder& stage = program_.stage("take");
    declare_rows(stage);
    stage.loop(count);
    std::vector<int64_t> strides = to_vector(self.strides());
    strides[sort_.dim] = 0;
    strides.push_back(self.stride(sort_.dim));
    const Value x = stage.convert(stage.load(stage.access(from, strides)), key_type_);
    store(stage, {x, stage.iota(index)}, walk({stride_}));
    if (count < length_) {
      StageBuilder& rest = program_.stage("rest");
      declare_rows(rest);
      rest.loop(length_ - count);
      using Float = std::numeric_limits<double>;
      using Int = std::numeric_limits<int64_t>;
      const Value last =
          key_type_ == Type::F
              ? rest.constant_f(sort_.is_descending ? -Float::infinity() : Float::quiet_NaN())
              : rest.constant_i(sort_.is_descending ? Int::min() : Int::max());
      store(rest, {last, rest.iota(index) + rest.constant_i(count)}, walk({stride_}),
            count * stride_);
    }
    now_ = 1 - now_;
  }

  /// Puts elements i and `offset + direction * i` of each block in order, for i below `pairs`.
  void exchange(int64_t block, int64_t pairs, int64_t offset, int64_t direction) {
    StageBuilder& stage = program_.stage("exchange");
    declare_rows(stage);
    stage.loop(length_ / block);
    stage.loop(pairs);
    const std::vector<int64_t> low = walk({block * stride_, stride_});
    const std::vector<int64_t> high = walk({block * stride_, direction * stride_});
    const Element a = load(stage, low), b = load(stage, high, offset * stride_);
    const Value swaps = precedes(b, a, sort_.is_descending);
    store(stage, {where(swaps, b.key, a.key), where(swaps, b.position, a.position)}, low);
    store(stage, {where(swaps, a.key, b.key), where(swaps, a.position, b.position)}, high,
          offset * stride_);
    now_ = 1 - now_;
  }

  ProgramBuilder& program_;
  const Sort& sort_;
  int64_t length_ = 0;  ///< a power of two
  Type key_type_ = Type::F;
  std::vector<int64_t> rows_, row_stride_;  ///< for every dimension; that to be sorted has extent 1
  int64_t stride_ = 1;
  std::array<std::pair<int, int>, 2> buffers_;  ///< keys and positions, from and to in turns
  int now_ = 0;
};

/// `values` is the tensor for the values; indices get its strides.
bool run(Call& call, const Sort& sort, at::Tensor values) {
  const at::Tensor& self = sort.self;
  const ScalarType dtype = self.scalar_type();
  if (!call.outputs_are(self.device(), {dtype, ScalarType::Long})) return false;
  if (const at::Tensor out = call.output(); out.defined()) {
    // As the CPU, which copies the input there before it sorts.
    resize_out(out, values.sizes());
    at::assert_no_partial_overlap(out, self);
  }
  at::Tensor indices =
      empty_strided(values.sizes(), values.strides(), ScalarType::Long, self.device());
  if (sort.kept != 0) {
    static const char kTag = 0;
    ProgramKey key(&kTag);
    key.add(static_cast<int64_t>(dtype) << 1 | static_cast<int64_t>(sort.is_descending));
    key.add(sort.dim);
    key.add(sort.kept);
    key.add(self.sizes());
    key.add(self.strides());
    key.add(values.strides());
    auto build = [&] {
      ProgramBuilder program(call.signature().name);
      const int to_values = declare_arg(program, values),
                to_indices = declare_arg(program, indices), from = declare_arg(program, self);
      Network(program, sort).run(from, values, to_values, indices, to_indices);
      return program.finish();
    };
    launch(*cached_program(key, build), {values, indices, self});
  }
  call.deliver({std::move(values), std::move(indices)});
  return true;
}

bool can_sort(const at::Tensor& self, int64_t dim) {
  return is_spyre(self) && type_class(self.scalar_type()) != 0 && self.dim() != 0 &&
         self.numel() != 0 && self.size(at::maybe_wrap_dim(dim, self.dim())) <= kLongest;
}

bool sort(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t dim = call[2].toInt();
  if (!can_sort(self, dim)) return false;
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  return run(call, {self, wrapped, call[3].toBool(), self.size(wrapped)}, empty_like(self));
}

bool topk(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const int64_t kept = call[1].toInt(), dim = call[2].toInt();
  if (!can_sort(self, dim) || self.scalar_type() == ScalarType::Bool) return false;
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  if (kept < 0 || kept > self.size(wrapped)) return false;
  std::vector<int64_t> size = to_vector(self.sizes());
  size[wrapped] = kept;
  return run(call, {self, wrapped, call[3].toBool(), kept},
             empty(size, self.scalar_type(), self.device()));
}

}  // namespace

const std::vector<Kernel>& sort_kernels() {
  static const std::vector<Kernel> kernels = {{"sort.stable", sort, "fib"}, {"topk", topk, "fi"}};
  return kernels;
}

}  // namespace spyre::aten
