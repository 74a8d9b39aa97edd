// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "spyre/program/program.h"

namespace spyre::program {

/// Register type of elements of `dtype`.
Type register_type(HostDtype dtype);

/// Whether `op` combines the iterations of a reduce phase.
inline bool is_reduction(Op op) { return op >= Op::reduce_sum && op <= Op::dot; }
inline bool is_arg_reduction(Op op) { return op >= Op::reduce_argmax && op <= Op::reduce_argmin_i; }
inline bool is_store(Op op) { return op == Op::store || op == Op::store_add; }
/// Whether instructions with `op` name an access in the bound state.
inline bool has_access(Op op) { return op == Op::load || is_store(op); }

/// Limits that keep a malformed program from exhausting the host.
inline constexpr int kMaxRegisters = 1 << 16;
inline constexpr int kMaxLoops = 256;

/// Checks the instructions of a stage: operands defined before use, of the right types, visible
/// where they are used; reductions in reduce phases only; a dot where it may be. `access_type`
/// gives the register type of an access. Returns the type of every register (N where undefined).
/// Throws std::invalid_argument that begins with `where`.
std::vector<Type> check_phases(const std::vector<Phase>& phases, int access_count,
                               const std::function<Type(int)>& access_type,
                               const std::string& where);

/// Checks everything of a portable program that does not depend on symbols or layouts.
void check(const Program& program);

}  // namespace spyre::program
