// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softdev/kernels/kernels.h"

/// Included by files that are compiled once per CPU capability: each copy fills its own table.
#ifndef CPU_CAPABILITY
#error "compile through spyre_add_capability_kernels()"
#endif

namespace spyre::softdev::CPU_CAPABILITY {

void fill_float_maps(KernelTable& table);
void fill_int_maps(KernelTable& table);
void fill_memory(KernelTable& table);
void fill_reductions(KernelTable& table);
void fill_matmul(KernelTable& table);
void fill_fused(KernelTable& table);

inline MapFn& map_slot(KernelTable& table, Op op, Mode mode) {
  return table.map[static_cast<size_t>(op)][static_cast<size_t>(mode)];
}

}  // namespace spyre::softdev::CPU_CAPABILITY
