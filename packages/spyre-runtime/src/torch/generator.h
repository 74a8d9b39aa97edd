// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

namespace spyre::aten {

/// The default generator of a device (-1: the current one); lives as long as the process.
const at::Generator& default_generator(c10::DeviceIndex device);
/// Seeds the default generators of all devices, also those not made yet. Enumerates no devices:
/// torch.manual_seed asks for this on behalf of CPU users too.
void seed_default_generators(uint64_t seed);
at::Generator make_generator(c10::DeviceIndex device);

/// The CPU generator that makes a Spyre generator's numbers, for ops that run on the host. Throws
/// if `generator` is one of another device.
at::Generator host_generator(const std::optional<at::Generator>& generator,
                             c10::DeviceIndex device);

}  // namespace spyre::aten
