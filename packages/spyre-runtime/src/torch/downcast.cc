// SPDX-License-Identifier: Apache-2.0
#include "torch/downcast.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "spyre/runtime/text.h"
#include "torch/errors.h"

namespace spyre::aten {
namespace {

struct State {
  std::mutex mutex;
  std::optional<bool> enabled;
  std::unordered_set<std::string> warned;
};

State& state() {
  static auto& instance = *new State;
  return instance;
}

bool enabled_by_environment() {
  const char* value = std::getenv("TORCH_SPYRE_DOWNCAST_WARN");
  const std::string_view text = value == nullptr ? "" : value;
  if (text.empty() || text == "1") return true;
  TORCH_CHECK_VALUE(text == "0", "environment variable TORCH_SPYRE_DOWNCAST_WARN is \"",
                    runtime::printable(value),
                    "\"; allowed are 1 (the default: warn) and 0 (do not)");
  return false;
}

}  // namespace

bool downcast_warning() {
  State& own = state();
  const std::lock_guard lock(own.mutex);
  if (!own.enabled.has_value()) own.enabled = enabled_by_environment();
  return *own.enabled;
}

void set_downcast_warning(bool enabled) {
  State& own = state();
  const std::lock_guard lock(own.mutex);
  own.enabled = enabled;
}

void warn_downcast(const std::string& op) {
  if (!downcast_warning()) return;
  {
    State& own = state();
    const std::lock_guard lock(own.mutex);
    if (!own.warned.insert(op).second) return;
  }
  warn_user(
      op +
      " on device spyre rounds its float32 operands to float16, which the matrix units take; the "
      "sum is "
      "float32; cast to torch.float16 to say so, or set TORCH_SPYRE_DOWNCAST_WARN=0 to hide this "
      "warning");
}

}  // namespace spyre::aten
