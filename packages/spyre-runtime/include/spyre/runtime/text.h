// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "spyre/runtime/errors.h"

namespace spyre::runtime {

/// Text from outside (a driver, the environment) as valid UTF-8, which is what Python makes a
/// string of: each byte that is none becomes "\xNN".
SPYRE_RUNTIME_API std::string printable(std::string_view text);

}  // namespace spyre::runtime
