// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The environment variables that the runtime reads. Every function reads the environment anew and
/// throws a ValueError that names the variable, its value and what is allowed.
namespace spyre::runtime::environment {

enum class Partition { kWhole, kPartition, kMock };  ///< FLEX_DEVICE: PF, VF, MOCK

inline constexpr int kMaxDevices = 64;
inline constexpr int kMaxCores = 32;

/// SPYRE_DRIVER: path of the driver library; empty if unset.
std::string driver_path();
/// AIU_WORLD_SIZE: 1 to kMaxDevices.
std::optional<int> world_size();
/// SPYRE_DEVICES: distinct indices below `present`, in the order given. Unset: all. Empty: none.
std::vector<uint32_t> visible_devices(int present);
/// FLEX_DEVICE, by default PF.
Partition partition();
/// TORCH_SENDNN_LOG, DT_DEEPRT_VERBOSE and DTLOG_LEVEL, which the libraries beneath other drivers
/// read: a value that they would not know is an error here already.
void check_log_levels();
/// SENCORES: 1 to kMaxCores, by default kMaxCores.
int cores();

}  // namespace spyre::runtime::environment
