// SPDX-License-Identifier: Apache-2.0
// torch.autocast("spyre"): PyTorch's own lists of what runs in lower precision, what in float32,
// and what in the widest type of its arguments.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

// The macros name types of these namespaces without qualifying them.
namespace at::autocast {
namespace {

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define SPYRE_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define SPYRE_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define SPYRE_FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define SPYRE_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(SPYRE_LOWER_PRECISION)
  AT_FORALL_FP32(SPYRE_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(SPYRE_FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(SPYRE_PROMOTE)
#undef SPYRE_LOWER_PRECISION
#undef SPYRE_FP32
#undef SPYRE_FP32_SET_OPT_DTYPE
#undef SPYRE_PROMOTE
}

}  // namespace
}  // namespace at::autocast
