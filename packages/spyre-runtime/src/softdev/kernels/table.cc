// SPDX-License-Identifier: Apache-2.0
// One table per CPU capability; compiled once for each.
#include "softdev/kernels/fill.h"

#define SPYRE_TEXT2(x) #x
#define SPYRE_TEXT(x) SPYRE_TEXT2(x)

namespace spyre::softdev::CPU_CAPABILITY {

const KernelTable& table() {
  static const KernelTable* const filled = [] {
    auto* t = new KernelTable;
    t->capability = SPYRE_TEXT(CPU_CAPABILITY);
    fill_float_maps(*t);
    fill_int_maps(*t);
    fill_memory(*t);
    fill_reductions(*t);
    fill_matmul(*t);
    fill_fused(*t);
    return t;
  }();
  return *filled;
}

}  // namespace spyre::softdev::CPU_CAPABILITY
