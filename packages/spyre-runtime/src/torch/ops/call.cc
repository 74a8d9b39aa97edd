// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/call.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

#include "torch/copy.h"
#include "torch/tensor.h"

namespace spyre::aten {

Signature::Signature(const c10::FunctionSchema& schema) {
  name = schema.name();
  if (!schema.overload_name().empty()) name += "." + schema.overload_name();
  argument_count = schema.arguments().size();
  for (size_t i = 0; i < argument_count; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    argument_names.push_back(argument.name());
    if (argument.alias_info() == nullptr || !argument.alias_info()->isWrite()) continue;
    outputs.push_back(static_cast<int>(i));
    (argument.kwarg_only() ? has_out : is_in_place) = true;
  }
}

std::optional<at::Tensor> Call::maybe_tensor(int position) const {
  const c10::IValue& value = arguments_[position];
  if (value.isNone() || !value.toTensor().defined()) return std::nullopt;
  return value.toTensor();
}

int Call::find(const char* name) const {
  for (size_t i = 0; i < signature_.argument_names.size(); ++i) {
    if (signature_.argument_names[i] == name) return static_cast<int>(i);
  }
  return -1;
}

at::Tensor Call::output(int number) const {
  if (static_cast<size_t>(number) >= signature_.outputs.size()) return {};
  return arguments_[signature_.outputs[number]].toTensor();
}

void Call::finish(at::Tensor result) {
  torch::jit::drop(stack_, signature_.argument_count);
  stack_.emplace_back(std::move(result));
}

bool Call::outputs_are(c10::Device device, c10::ArrayRef<c10::ScalarType> dtypes) const {
  int number = 0;
  for (c10::ScalarType dtype : dtypes) {
    const at::Tensor out = output(number++);
    if (out.defined() && (out.device() != device || out.scalar_type() != dtype)) return false;
  }
  return true;
}

void Call::deliver(std::vector<at::Tensor> results) {
  for (size_t i = 0; has_output() && i < results.size(); ++i) {
    at::Tensor out = output(static_cast<int>(i));
    resize_out(out, results[i].sizes());
    out.copy_(results[i]);
    results[i] = std::move(out);
  }
  finish(std::move(results));
}

void Call::finish_values(std::vector<c10::IValue> results) {
  torch::jit::drop(stack_, signature_.argument_count);
  for (c10::IValue& result : results) stack_.push_back(std::move(result));
}

void Call::finish(std::vector<at::Tensor> results) {
  torch::jit::drop(stack_, signature_.argument_count);
  for (at::Tensor& result : results) stack_.emplace_back(std::move(result));
}

void resize_out(const at::Tensor& out, at::IntArrayRef size) {
  at::native::resize_output(out, size);
  at::assert_no_internal_overlap(out);
}

OutTensor::OutTensor(const at::Tensor& result, const at::Tensor& input, bool may_be_input)
    : result_(result), stored_(result) {
  const at::MemOverlapStatus status = at::get_overlap_status(result, input);
  if (status == at::MemOverlapStatus::No ||
      (may_be_input && status == at::MemOverlapStatus::Full)) {
    return;
  }
  stored_ = empty(result.sizes(), result.scalar_type(), result.device());
}

void OutTensor::settle() const {
  if (!stored_.is_same(result_)) copy_from(stored_, result_, /*non_blocking=*/true);
}

}  // namespace spyre::aten
