// SPDX-License-Identifier: Apache-2.0
#include "torch/debug.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "spyre/runtime/text.h"

namespace spyre::aten {
namespace {

bool read_environment() {
  const char* value = std::getenv("TORCH_SPYRE_DEBUG");
  const std::string_view text = value == nullptr ? "" : value;
  if (text.empty() || text == "0") return false;
  TORCH_CHECK_VALUE(text == "1", "environment variable TORCH_SPYRE_DEBUG is \"",
                    runtime::printable(value),
                    "\"; allowed are 1 (log to stderr) and 0 (the default)");
  return true;
}

}  // namespace

bool debug_enabled() {
  static const bool enabled = read_environment();
  return enabled;
}

void debug_line(const std::string& text) {
  // One call, so that lines of several threads do not mix.
  std::fputs(("[spyre] " + text + "\n").c_str(), stderr);
}

}  // namespace spyre::aten
