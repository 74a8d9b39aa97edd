// SPDX-License-Identifier: Apache-2.0
#include "torch/device.h"

#include "torch/errors.h"
#include "torch/memory.h"

namespace spyre::aten {

c10::DeviceIndex device_count_or_zero() noexcept {
  try {
    return static_cast<c10::DeviceIndex>(runtime::device_count());
  } catch (const std::exception&) {
    // The callers' contracts forbid throwing; the reason is reported by the first real use.
    return 0;
  }
}

void check_usable() {
  translated([] { runtime::check_usable(); });
}

void record_use(const c10::DataPtr& data, runtime::StreamId stream) {
  runtime::Allocation* allocation = runtime::find(data.get());
  if (allocation == nullptr || allocation->stream == stream) return;
  translated([&] { runtime::record_use(allocation, stream); });
}

}  // namespace spyre::aten
