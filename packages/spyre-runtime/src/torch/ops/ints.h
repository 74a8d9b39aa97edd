// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

namespace spyre::aten {

/// A list of integers. PyTorch hands one with a number below -2^62 over as a list of symbols.
inline std::vector<int64_t> ints(const c10::IValue& value) {
  if (value.isIntList()) return value.toIntVector();
  std::vector<int64_t> result;
  for (const c10::SymInt& number : value.toSymIntVector()) {
    result.push_back(number.guard_int(__FILE__, __LINE__));
  }
  return result;
}

}  // namespace spyre::aten
