// SPDX-License-Identifier: Apache-2.0
// Packs a float16 tensor for a card and unpacks it again.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "spyre/layout/transfer.h"
#include "spyre/layout/version.h"

int main() {
  namespace sl = spyre::layout;
  const std::vector<int64_t> size = {100, 300};
  const std::vector<int64_t> strides = sl::contiguous_strides(size);
  std::vector<uint16_t> weights(100 * 300);
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] =
        sl::float_to_fp16(static_cast<float>(i % 1000) / 4 - 100);  // exact in both formats
  }

  // docs: pack
  const sl::Layout layout =
      sl::Layout::generic_stick(size, strides, sl::HostDtype::kFloat16, {0, 1});
  std::vector<char> device(static_cast<size_t>(layout.device_bytes()));
  sl::to_device(weights.data(), sl::HostDtype::kFloat16, size, strides, layout, device.data(),
                sl::thread_parallel_for());
  // docs: end

  std::vector<uint16_t> back(weights.size());
  sl::from_device(device.data(), layout, size, strides, 0, back.data(), sl::HostDtype::kFloat16,
                  strides);
  size_t wrong = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    wrong += sl::sen169_to_fp16(sl::fp16_to_sen169(weights[i])) != back[i];
  }
  std::printf("spyre-layout %s: %s, %zu of %zu elements differ\n", SPYRE_LAYOUT_VERSION,
              layout.repr().c_str(), wrong, weights.size());
  return wrong == 0 ? 0 : 1;
}
