// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one source of this package's version: read here by C++, and by regular expression by CMake
// and the build backend.
#define SPYRE_RUNTIME_VERSION "0.1.0"
