// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// The warning that float32 operands of a matrix unit are rounded to float16 (SEN169).
namespace spyre::aten {

/// TORCH_SPYRE_DOWNCAST_WARN=0 or 1 at first use (default 1), then as set.
bool downcast_warning();
void set_downcast_warning(bool enabled);

/// For kernels that downcast: warns once per op, if warnings are enabled.
void warn_downcast(const std::string& op);

}  // namespace spyre::aten
