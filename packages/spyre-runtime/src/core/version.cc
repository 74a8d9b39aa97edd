// SPDX-License-Identifier: Apache-2.0
#include "spyre/runtime/version.h"

namespace spyre::runtime {

__attribute__((visibility("default"))) const char* version() { return SPYRE_RUNTIME_VERSION; }

}  // namespace spyre::runtime
