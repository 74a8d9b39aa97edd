// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/DispatchKey.h>
#include <torch/library.h>

/// Operators that PyTorch composes of others, or differentiates by others, with helpers of dtypes
/// that the device does not have: they run on the host as a whole (operator_traits.h says which).
namespace spyre::aten {

/// Registers the kernels for PrivateUse1 or AutogradPrivateUse1, but where the device has one of
/// its own. AutogradPrivateUse1 comes first, for the other leaves kernels like the device's own.
void register_whole_operators(torch::Library& library, c10::DispatchKey key);

}  // namespace spyre::aten
