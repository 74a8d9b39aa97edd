// SPDX-License-Identifier: Apache-2.0
#include "torch/host_call.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "torch/copy.h"
#include "torch/device.h"
#include "torch/errors.h"
#include "torch/fallback_report.h"
#include "torch/generator.h"
#include "torch/host_copy.h"
#include "torch/tensor.h"

namespace spyre::aten {
namespace {

using torch::jit::Stack;

c10::OperatorHandle host_operator(const c10::OperatorHandle& op, const OperatorTraits& traits) {
  if (traits.host_name == nullptr) return op;
  return c10::Dispatcher::singleton().findSchemaOrThrow(traits.host_name,
                                                        op.operator_name().overload_name.c_str());
}

bool is_unmarked_write(const UnmarkedWrites& known, const Stack& stack, size_t begin, size_t i) {
  const auto position = static_cast<std::ptrdiff_t>(i);
  return position >= known.first && position <= known.last &&
         stack[begin + static_cast<size_t>(known.condition)].toBool();
}

bool is_half(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16;
}

/// Draws in half have one bit more than SEN169 keeps. Rounding them up could give the upper bound,
/// which a half-open interval excludes, so they are moved down to the device's grid.
void keep_below_upper_bound(const at::Tensor& drawn, double lower) {
  at::Tensor dense = drawn.contiguous();
  auto* value = dense.data_ptr<c10::Half>();
  const auto least = static_cast<c10::Half>(static_cast<float>(lower));
  for (int64_t i = 0; i < dense.numel(); ++i) {
    // Bit patterns grow with the magnitude: down is towards zero above it, away from it below.
    if ((value[i].x & 1) == 0) continue;
    value[i].x =
        static_cast<uint16_t>((value[i].x & 0x8000) == 0 ? value[i].x - 1 : value[i].x + 1);
    if (value[i] < least) value[i] = least;
  }
  if (!dense.is_same(drawn)) drawn.copy_(dense);
}

/// A Spyre argument and its host copy.
struct HostCopy {
  at::Tensor original;
  at::Tensor host;
};

/// What an operator does with an argument.
enum class Use : uint8_t { kRead, kWritten, kOut };

class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, const OperatorRecord& record, Stack& stack)
      : op_(op), name_(record.name), traits_(record.traits), stack_(stack) {
    begin_ = stack.size() - op.schema().arguments().size();
  }

  void run() {
    find_device();
    const c10::OperatorHandle host_op = host_operator(op_, traits_);
    if (traits_.adapt != nullptr) traits_.adapt(stack_, begin_);
    TORCH_CHECK_NOT_IMPLEMENTED(
        host_op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), name_, " on ",
        describe_arguments(stack_, begin_),
        " has no kernel on device spyre, and none on the CPU to fall back to");
    const std::vector<c10::IValue> given(stack_.begin() + static_cast<std::ptrdiff_t>(begin_),
                                         stack_.end());
    try {
      call_host(host_op);
    } catch (const c10::NotImplementedError&) {
      // The CPU lacks some half kernels that devices have; nothing has been written back yet.
      if (!find_half(host_op, given)) throw;
      stack_.resize(begin_);
      stack_.insert(stack_.end(), given.begin(), given.end());
      copies_.clear();
      shared_.clear();
      written_.clear();
      call_host(host_op);
    }
    if (traits_.lower_bound >= 0 && !written_.empty() &&
        written_.front().host.scalar_type() == c10::ScalarType::Half) {
      const auto position = static_cast<size_t>(traits_.lower_bound);
      keep_below_upper_bound(written_.front().host, given[position].toDouble());
    }
    write_back();
    const size_t returned = op_.schema().returns().size();
    for (size_t i = stack_.size() - returned; i < stack_.size(); ++i) {
      stack_[i] = result_to_device(std::move(stack_[i]));
    }
  }

  /// The operator and its derivative on the host; only the copies there and back are recorded for
  /// the device.
  void run_with_derivative() {
    with_derivative_ = true;
    find_device();
    for (size_t i = begin_; i < stack_.size(); ++i) {
      stack_[i] = argument_to_host(std::move(stack_[i]), Use::kRead);
    }
    {
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(
          c10::DispatchKeySet(c10::DispatchKey::AutocastCPU));
      op_.callBoxed(&stack_);
    }
    const size_t returned = op_.schema().returns().size();
    for (size_t i = stack_.size() - returned; i < stack_.size(); ++i) {
      stack_[i] = result_to_device(std::move(stack_[i]));
    }
  }

 private:
  void call_host(const c10::OperatorHandle& host_op) {
    const auto& arguments = host_op.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const bool is_written =
          (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()) ||
          is_unmarked_write(traits_.unmarked_writes, stack_, begin_, i);
      const Use use = !is_written ? Use::kRead : arguments[i].is_out() ? Use::kOut : Use::kWritten;
      stack_[begin_ + i] = argument_to_host(std::move(stack_[begin_ + i]), use);
    }
    // The host kernel is an implementation detail: no autograd of its own, no autocast.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(
        c10::DispatchKeySet(c10::DispatchKey::AutocastCPU));
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    host_op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
  }

  /// Sets `widened_half_` if every float among the arguments is of one half dtype, and the result's
  /// dtype follows from that.
  bool find_half(const c10::OperatorHandle& host_op, const std::vector<c10::IValue>& given) {
    std::optional<c10::ScalarType> found;
    bool is_mixed = false;
    const auto see = [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.is_floating_point()) return;
      is_mixed |= !is_half(tensor.scalar_type()) ||
                  found.value_or(tensor.scalar_type()) != tensor.scalar_type();
      found = tensor.scalar_type();
    };
    for (size_t i = 0; i < given.size(); ++i) {
      const c10::IValue& value = given[i];
      if (value.isTensor()) see(value.toTensor());
      if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorVector()) see(tensor);
      }
      const c10::TypePtr& type = host_op.schema().arguments()[i].real_type();
      is_mixed |= !value.isNone() && type->annotation_str().find("ScalarType") != std::string::npos;
    }
    if (is_mixed || !found.has_value()) return false;
    widened_half_ = found;
    return true;
  }

  // Devices: every tensor is on one Spyre device, except 0-dim CPU tensors (scalars) and CPU
  // indices.
  void find_device() {
    for (size_t i = begin_; i < stack_.size(); ++i) {
      const c10::IValue& value = stack_[i];
      if (value.isTensor()) {
        see_tensor(value.toTensor(), i, false);
      } else if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorVector()) {
          see_tensor(tensor, i, false);
        }
      } else if (value.isOptionalTensorList()) {
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
          if (tensor.has_value()) see_tensor(*tensor, i, true);
        }
      } else if (value.isDevice() && value.toDevice().type() == kSpyre && !device_.has_value()) {
        factory_device_ = value.toDevice();
      }
    }
    if (device_.has_value() && cpu_tensor_.defined()) {
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but ", name_,
                  " got tensors on ", *device_, " and on cpu (of size ",
                  list_text(cpu_tensor_.sizes()), "); move them to one device");
    }
    if (!device_.has_value() && !factory_device_.has_value() && saw_cpu_tensor_) {
      // Only the generator's key brought this call here.
      TORCH_CHECK_VALUE(false, name_,
                        " got a generator of device spyre for tensors on the CPU; pass one of the "
                        "CPU or none");
    }
    if (!device_.has_value()) device_ = factory_device_.value_or(c10::Device(kSpyre));
    if (!device_->has_index()) {
      device_ = c10::Device(kSpyre, static_cast<c10::DeviceIndex>(checked_device(*device_)));
    }
  }

  void see_tensor(const at::Tensor& tensor, size_t position, bool is_index) {
    if (!tensor.defined()) return;
    if (!is_spyre(tensor)) {
      saw_cpu_tensor_ |= tensor.device().is_cpu();
      if (tensor.device().is_cpu() && tensor.dim() > 0 && !is_index) cpu_tensor_ = tensor;
      TORCH_CHECK(tensor.device().is_cpu(), "Expected all tensors to be on the same device, but ",
                  name_, " got one on ", tensor.device(), " besides spyre");
      return;
    }
    TORCH_CHECK(!device_.has_value() || *device_ == tensor.device(),
                "Expected all tensors to be on the same device, but ", name_, " got tensors on ",
                device_.value_or(tensor.device()), " and ", tensor.device(),
                "; move them to one device");
    device_ = tensor.device();
    if (op_.schema().is_mutable()) originals_.emplace_back(tensor, position - begin_);
  }

  c10::IValue argument_to_host(c10::IValue value, Use use) {
    if (value.isTensor()) return tensor_to_host(value.toTensor(), use);
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        list.push_back(tensor_to_host(tensor, use));
      }
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor.has_value() ? std::make_optional(tensor_to_host(*tensor, use))
                                          : std::nullopt);
      }
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == kSpyre) return c10::Device(c10::kCPU);
    if (value.isGenerator()) return host_generator(value.toGenerator(), device_->index());
    return value;
  }

  at::Tensor tensor_to_host(const at::Tensor& tensor, Use use) {
    const bool is_written = use != Use::kRead;
    if (!is_spyre(tensor)) return tensor;
    if (with_derivative_) {
      if (!wants_float32(traits_, tensor.scalar_type())) return tensor.to(c10::kCPU);
      narrow_ = tensor.scalar_type();
      return tensor.to(c10::ScalarType::Float).to(c10::kCPU);
    }
    for (HostCopy& copy : copies_) {
      if (copy.original.is_same(tensor)) {
        if (is_written) mark_written(copy);
        return copy.host;
      }
    }
    if (is_written) at::assert_no_internal_overlap(tensor);
    const bool is_shared = shares_written_memory(tensor);
    at::Tensor source = tensor;
    if (wants_float32(traits_, tensor.scalar_type()) || widened_half_ == tensor.scalar_type()) {
      narrow_ = tensor.scalar_type();
      // On the device, whose halves reach further than the host's.
      if (!is_shared) source = tensor.to(c10::ScalarType::Float);
    }
    // Some CPU kernels take an out tensor for a contiguous one, whatever its strides.
    at::Tensor host = is_shared          ? view_of_shared_memory(tensor)
                      : use == Use::kOut ? to_cpu(source).contiguous()
                                         : faithful_host_copy(source);
    if (is_shared && narrow_ == tensor.scalar_type()) host = host.to(c10::ScalarType::Float);
    copies_.push_back({tensor, host});
    if (is_written) mark_written(copies_.back());
    return copies_.back().host;
  }

  /// Whether an argument that is written has memory of this one, which is another tensor.
  bool shares_written_memory(const at::Tensor& tensor) const {
    if (tensor.numel() == 0) return false;
    const auto& arguments = op_.schema().arguments();
    bool is_shared = false, is_written = false;
    for (const auto& [other, position] : originals_) {
      if (!other.storage().is_alias_of(tensor.storage()) ||
          other.scalar_type() != tensor.scalar_type()) {
        continue;
      }
      const c10::AliasInfo* alias = arguments[position].alias_info();
      is_shared |= !other.is_same(tensor);
      is_written |= alias != nullptr && alias->isWrite();
    }
    return is_shared && is_written;
  }

  /// The CPU kernel must see such overlaps as they are: it refuses some of them.
  at::Tensor view_of_shared_memory(const at::Tensor& tensor) {
    for (const HostCopy& shared : shared_) {
      if (shared.original.storage().is_alias_of(tensor.storage())) {
        return shared.host.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
      }
    }
    const auto count =
        static_cast<int64_t>(tensor.storage().nbytes() / static_cast<size_t>(tensor.itemsize()));
    const at::Tensor flat = tensor.as_strided({count}, {1}, 0);
    shared_.push_back({flat, to_cpu(flat)});
    return view_of_shared_memory(tensor);
  }

  void mark_written(const HostCopy& copy) {
    for (const HostCopy& known : written_) {
      if (known.original.is_same(copy.original)) return;
    }
    written_.push_back(copy);
  }

  void write_back() {
    for (const HostCopy& copy : written_) {
      if (copy.original.sizes() != copy.host.sizes()) {
        copy.original.resize_(copy.host.sizes());
        // A kernel may have chosen another order of the dimensions: LAPACK's results are columns.
        if (copy.host.is_non_overlapping_and_dense()) {
          copy.original.unsafeGetTensorImpl()->set_sizes_and_strides(copy.host.sizes(),
                                                                     copy.host.strides());
        }
      }
      const bool is_widened =
          is_half(copy.original.scalar_type()) && copy.host.scalar_type() == c10::ScalarType::Float;
      copy_from(is_widened ? to_device_halves(copy.host, copy.original.scalar_type(), *device_)
                           : copy.host,
                copy.original, /*non_blocking=*/false);
    }
  }

  c10::IValue result_to_device(c10::IValue value) {
    if (value.isTensor()) return tensor_to_device(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector())
        list.push_back(tensor_to_device(tensor));
      return list;
    }
    return value;
  }

  at::Tensor tensor_to_device(const at::Tensor& result) {
    if (!result.defined() || is_spyre(result)) return result;
    for (const HostCopy& copy : copies_) {
      if (copy.host.is_same(result)) return copy.original;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        result.layout() == c10::kStrided, name_, " on ", *device_, " gives a tensor of layout ",
        result.layout(), ", which device spyre does not have; move its arguments to the CPU first");
    if (!maybe_host_dtype(result.scalar_type()).has_value()) {
      throw_no_format(name_ + " on " + device_->str() + " gives a tensor of dtype " +
                      dtype_name(result.scalar_type()) +
                      ", which has no format on device spyre; move its arguments to the CPU first, "
                      "or ask for another dtype");
    }
    if (with_derivative_) {
      const bool is_widened = narrow_.has_value() && result.scalar_type() == c10::ScalarType::Float;
      const at::Tensor there = result.to(*device_);
      return is_widened ? there.to(*narrow_) : there;
    }
    for (const HostCopy& copy : copies_) {
      if (result.numel() == 0 || !result.storage().is_alias_of(copy.host.storage())) continue;
      if (copy.host.strides() == copy.original.strides() &&
          copy.host.sizes() == copy.original.sizes() &&
          copy.host.scalar_type() == result.scalar_type()) {
        return copy.original.as_strided(
            result.sizes(), result.strides(),
            copy.original.storage_offset() + result.storage_offset() - copy.host.storage_offset());
      }
    }
    at::Tensor dense = result.is_non_overlapping_and_dense() ? result.resolve_conj().resolve_neg()
                                                             : result.contiguous();
    if (narrow_.has_value() && dense.scalar_type() == c10::ScalarType::Float) {
      if (is_half(*narrow_)) return to_device_halves(dense, *narrow_, *device_);
      dense = dense.to(*narrow_);
    }
    at::Tensor on_device =
        empty_strided(dense.sizes(), dense.strides(), dense.scalar_type(), *device_);
    copy_from(dense, on_device, /*non_blocking=*/false);
    if (result.unsafeGetTensorImpl()->is_wrapped_number()) {
      on_device.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return on_device;
  }

  const c10::OperatorHandle& op_;
  const std::string& name_;
  const OperatorTraits& traits_;
  Stack& stack_;
  size_t begin_ = 0;
  std::optional<c10::Device> device_;
  std::optional<c10::Device> factory_device_;
  at::Tensor cpu_tensor_;
  bool saw_cpu_tensor_ = false;
  bool with_derivative_ = false;
  c10::SmallVector<std::pair<at::Tensor, size_t>, 6>
      originals_;                 ///< of ops that write, with positions
  std::vector<HostCopy> shared_;  ///< whole memories that several arguments lie in
  std::vector<HostCopy> copies_;
  std::vector<HostCopy> written_;
  std::optional<c10::ScalarType> widened_half_;  ///< arguments of this dtype run in float32
  std::optional<c10::ScalarType> narrow_;        ///< results computed in float32 go back to this
};

}  // namespace

void run_on_host(const c10::OperatorHandle& op, const OperatorRecord& record, Stack& stack) {
  HostCall(op, record, stack).run();
}

void run_on_host_with_derivative(const c10::OperatorHandle& op, const OperatorRecord& record,
                                 Stack& stack) {
  HostCall(op, record, stack).run_with_derivative();
}

}  // namespace spyre::aten
