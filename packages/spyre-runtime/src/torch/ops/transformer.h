// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "torch/ops/kernels.h"

namespace spyre::aten {

const std::vector<Kernel>& transformer_kernels();  ///< fused layers of torch.nn's encoders

}  // namespace spyre::aten
