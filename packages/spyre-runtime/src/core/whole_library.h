// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace spyre::runtime {

/// Whether all segments of a shared library lie inside its file. The dynamic loader does not look:
/// it maps them, and touching what a cut file lacks ends the process with SIGBUS. What cannot be
/// read, and what is no library for this machine, counts as whole: the loader has words for these.
bool is_whole_library(const std::string& path);

}  // namespace spyre::runtime
