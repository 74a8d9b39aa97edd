// SPDX-License-Identifier: Apache-2.0
// Matrix and vector products: one stage of (batch, m, n) by k, with the sum of a third operand as
// its epilogue.
#include <ATen/MemoryOverlap.h>

#include "torch/downcast.h"
#include "torch/launch.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

/// result = alpha * left @ right + beta * addend, all of rank 3 (batch, rows, columns) here.
struct Product {
  at::Tensor left, right;
  std::vector<int64_t> result_size;  ///< as PyTorch returns it
  at::Tensor addend;                 ///< undefined, or to be broadcast to result_size
  double alpha = 1, beta = 1;
};

bool can_multiply(const at::Tensor& left, const at::Tensor& right) {
  return is_float_on_device(left) && is_spyre(right) && left.device() == right.device() &&
         left.scalar_type() == right.scalar_type();
}

/// `tensor` with a stride of 0 wherever it broadcasts to `size`; undefined if it does not.
at::Tensor broadcast(const at::Tensor& tensor, at::IntArrayRef size) {
  const int64_t missing = static_cast<int64_t>(size.size()) - tensor.dim();
  if (missing < 0) return {};
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) != 1 && tensor.size(dim) != size[dim + missing]) return {};
  }
  return tensor.expand(size);
}

/// Strides of a result-shaped tensor over the loops batch, m, n, k.
std::vector<int64_t> result_strides(const at::Tensor& tensor) {
  std::vector<int64_t> strides(4, 0);
  // Dimensions of the result in loop order; vectors have no columns.
  std::vector<int> loops;
  if (tensor.dim() == 3) loops = {0, 1, 2};
  if (tensor.dim() == 2) loops = {1, 2};
  if (tensor.dim() == 1) loops = {1};
  for (size_t dim = 0; dim < loops.size(); ++dim) strides[loops[dim]] = tensor.stride(dim);
  return strides;
}

program::Program build(const Product& product, const Call& call, const at::Tensor& out) {
  const at::Tensor& left = product.left;
  const at::Tensor& right = product.right;
  ProgramBuilder program(call.signature().name);
  const int out_buffer = declare_arg(program, out);
  const int left_buffer = declare_arg(program, left);
  const int right_buffer = declare_arg(program, right);
  const bool has_addend = product.addend.defined();
  const int addend_buffer = has_addend ? declare_arg(program, product.addend) : -1;
  StageBuilder& stage = program.stage("matmul");
  stage.loop(left.size(0));
  stage.loop(left.size(1));
  stage.loop(right.size(2));
  stage.loop(left.size(2), /*reduce=*/true);
  const int to = stage.access(out_buffer, result_strides(out));
  const int a = stage.access(left_buffer, {left.stride(0), left.stride(1), 0, left.stride(2)});
  const int b = stage.access(right_buffer, {right.stride(0), 0, right.stride(2), right.stride(1)});
  stage.phase(true);
  const Value x = stage.load(a);
  const Value y = stage.load(b);
  const Value dot = stage.emit(Op::dot, {x, y});
  stage.phase();
  const ScalarType dtype = out.scalar_type();
  Value result = dot * stage.constant_f(computed_number(product.alpha, dtype));
  if (has_addend) {
    const int c = stage.access(addend_buffer, result_strides(product.addend));
    result = result + stage.load(c) * stage.constant_f(computed_number(product.beta, dtype));
  }
  stage.store(to, result);
  return program.finish();
}

bool run(Product product, Call& call) {
  const at::Tensor& left = product.left;
  const at::Tensor& right = product.right;
  if (left.size(0) != right.size(0) || left.size(2) != right.size(1) || left.size(2) == 0)
    return false;
  at::Tensor out = call.output();
  if (product.addend.defined()) {
    if (!can_multiply(left, product.addend)) return false;
    const at::Tensor addend = broadcast(product.addend, product.result_size);
    if (!addend.defined()) return false;
    // An in-place op does not grow its tensor.
    if (call.signature().is_in_place && !out.sizes().equals(product.result_size)) return false;
    product.addend = product.beta == 0 ? at::Tensor() : addend;
  }
  if (out.defined()) {
    if (out.scalar_type() != left.scalar_type() || out.device() != left.device()) return false;
    resize_out(out, product.result_size);
    if (product.addend.defined()) at::assert_no_partial_overlap(out, product.addend);
  } else {
    out = empty(product.result_size, left.scalar_type(), left.device());
  }
  if (out.numel() == 0) {
    call.finish(std::move(out));
    return true;
  }
  if (left.scalar_type() == ScalarType::Float) warn_downcast(call.signature().name);

  // Operands are read while results are written.
  const bool overlaps = [&] {
    for (const at::Tensor* operand : {&left, &right}) {
      if (at::get_overlap_status(out, *operand) != at::MemOverlapStatus::No) return true;
    }
    if (!product.addend.defined()) return false;
    return at::get_overlap_status(out, product.addend) != at::MemOverlapStatus::No &&
           !(out.is_alias_of(product.addend) && out.strides().equals(product.addend.strides()) &&
             out.storage_offset() == product.addend.storage_offset());
  }();
  const at::Tensor target = overlaps ? empty(out.sizes(), out.scalar_type(), out.device()) : out;

  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(static_cast<int64_t>(out.scalar_type()) << 8 | out.dim() << 1 |
          static_cast<int64_t>(product.addend.defined()));
  key.add(product.alpha);
  key.add(product.beta);
  for (const at::Tensor* tensor : {&left, &right}) {
    key.add(tensor->sizes());
    key.add(tensor->strides());
  }
  key.add(target.strides());
  c10::SmallVector<at::Tensor, 4> args{target, left, right};
  if (product.addend.defined()) {
    key.add(product.addend.strides());
    args.push_back(product.addend);
  }
  launch(*cached_program(key, [&] { return build(product, call, target); }), args);
  if (overlaps) out.copy_(target);
  call.finish(std::move(out));
  return true;
}

at::Tensor as_batch(const at::Tensor& matrix) { return matrix.unsqueeze(0); }
at::Tensor as_column(const at::Tensor& vector) { return vector.unsqueeze(1).unsqueeze(0); }
at::Tensor as_row(const at::Tensor& vector) { return vector.unsqueeze(0).unsqueeze(0); }

/// beta and alpha of the add* ops; complex ones are not for us.
bool read_scales(const Call& call, Product& product) {
  const int beta = call.find("beta");
  const int alpha = call.find("alpha");
  if (call[beta].isComplexDouble() || call[alpha].isComplexDouble()) return false;
  product.beta = call[beta].toScalar().toDouble();
  product.alpha = call[alpha].toScalar().toDouble();
  return true;
}

template <int first, int rank>
bool operands_fit(const Call& call) {
  const at::Tensor& left = call.tensor(first);
  const at::Tensor& right = call.tensor(first + 1);
  return left.dim() == rank && right.dim() == rank && can_multiply(left, right);
}

bool mm(Call& call) {
  if (!operands_fit<0, 2>(call)) return false;
  Product product{as_batch(call.tensor(0)), as_batch(call.tensor(1)), {}, {}};
  product.result_size = {call.tensor(0).size(0), call.tensor(1).size(1)};
  return run(std::move(product), call);
}

bool bmm(Call& call) {
  if (!operands_fit<0, 3>(call)) return false;
  Product product{call.tensor(0), call.tensor(1), {}, {}};
  product.result_size = {product.left.size(0), product.left.size(1), product.right.size(2)};
  return run(std::move(product), call);
}

bool addmm(Call& call) {
  Product product;
  if (!operands_fit<1, 2>(call) || !read_scales(call, product)) return false;
  product.left = as_batch(call.tensor(1));
  product.right = as_batch(call.tensor(2));
  product.addend = call.tensor(0);
  product.result_size = {product.left.size(1), product.right.size(2)};
  return run(std::move(product), call);
}

bool baddbmm(Call& call) {
  Product product;
  if (!operands_fit<1, 3>(call) || !read_scales(call, product)) return false;
  product.left = call.tensor(1);
  product.right = call.tensor(2);
  product.addend = call.tensor(0);
  product.result_size = {product.left.size(0), product.left.size(1), product.right.size(2)};
  return run(std::move(product), call);
}

bool matrix_and_vector(const at::Tensor& matrix, const at::Tensor& vector) {
  return matrix.dim() == 2 && vector.dim() == 1 && can_multiply(matrix, vector);
}

bool mv(Call& call) {
  if (!matrix_and_vector(call.tensor(0), call.tensor(1))) return false;
  Product product{as_batch(call.tensor(0)), as_column(call.tensor(1)), {}, {}};
  product.result_size = {product.left.size(1)};
  return run(std::move(product), call);
}

bool addmv(Call& call) {
  Product product;
  if (!matrix_and_vector(call.tensor(1), call.tensor(2)) || !read_scales(call, product))
    return false;
  product.left = as_batch(call.tensor(1));
  product.right = as_column(call.tensor(2));
  product.addend = call.tensor(0);
  product.result_size = {product.left.size(1)};
  return run(std::move(product), call);
}

bool dot(Call& call) {
  if (!operands_fit<0, 1>(call)) return false;
  Product product{as_row(call.tensor(0)), as_column(call.tensor(1)), {}, {}};
  return run(std::move(product), call);
}

}  // namespace

const std::vector<Kernel>& matmul_kernels() {
  static const std::vector<Kernel> kernels = {
      {"mm", mm, "f"},       {"bmm", bmm, "f"}, {"addmm", addmm, "f"}, {"baddbmm", baddbmm, "f"},
      {"addmv", addmv, "f"}, {"mv", mv, "f"},   {"dot", dot, "f"},     {"vdot", dot, "f"},
  };
  return kernels;
}

}  // namespace spyre::aten
