// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>

/// Debug logging of the glue: lines on stderr under TORCH_SPYRE_DEBUG=1.
namespace spyre::aten {

/// Reads the variable once; throws c10::ValueError if it is neither 0 nor 1.
bool debug_enabled();
void debug_line(const std::string& text);

}  // namespace spyre::aten

/// SPYRE_DEBUG("text " << value); the arguments are evaluated only if debugging is on.
#define SPYRE_DEBUG(stream_expression)                   \
  do {                                                   \
    if (C10_UNLIKELY(::spyre::aten::debug_enabled())) {  \
      std::ostringstream spyre_debug_text;               \
      spyre_debug_text << stream_expression;             \
      ::spyre::aten::debug_line(spyre_debug_text.str()); \
    }                                                    \
  } while (false)
