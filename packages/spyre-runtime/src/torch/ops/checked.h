// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "torch/ops/kernels.h"

namespace spyre::aten {

/// Kernels that compute nothing: they check what the CPU's kernels trust, and leave the rest to the
/// fallback.
const std::vector<Kernel>& checked_kernels();

}  // namespace spyre::aten
