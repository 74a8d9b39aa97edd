// SPDX-License-Identifier: Apache-2.0
#include "softdev/kernels/kernels.h"

#include <ATen/Version.h>

#include <string>

namespace spyre::softdev {

namespace DEFAULT {
const KernelTable& table();
}
#ifdef SPYRE_HAVE_AVX2
namespace AVX2 {
const KernelTable& table();
}
#endif
#ifdef SPYRE_HAVE_AVX512
namespace AVX512 {
const KernelTable& table();
}
#endif

const KernelTable& kernels() {
  static const KernelTable& best = []() -> const KernelTable& {
    [[maybe_unused]] const std::string capability = at::get_cpu_capability();
#ifdef SPYRE_HAVE_AVX512
    if (capability == "AVX512") return AVX512::table();
#endif
#ifdef SPYRE_HAVE_AVX2
    if (capability == "AVX2") return AVX2::table();
#endif
    return DEFAULT::table();
  }();
  return best;
}

int64_t codec_bytes(Codec codec) {
  static constexpr int64_t kBytes[] = {2, 2, 4, 1, 1, 1, 2, 4, 8, 4};
  static_assert(sizeof kBytes / sizeof kBytes[0] == kCodecs);
  return kBytes[static_cast<size_t>(codec)];
}

}  // namespace spyre::softdev
