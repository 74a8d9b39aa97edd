// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spyre/layout/layout.h"
#include "spyre/program/program.h"

namespace spyre::program {

/// What an argument buffer is bound to: a view at `storage_offset` host elements into a storage
/// with `layout`, whose elements have dtype `dtype`. Borrowed for the duration of link().
struct ArgBinding {
  const layout::Layout* layout = nullptr;
  layout::HostDtype dtype{};
  int64_t storage_offset = 0;
};

struct LinkOptions {
  int cores = 32;  ///< SENCORES
  int64_t lx_bytes_per_core = 2 << 20;
};

struct BoundProgram;  // src/program/bound.h

/// Binds a portable program. Throws std::invalid_argument that names the stage, access and numbers
/// when an access leaves its buffer, dtypes disagree, or LX is over-used. Cost: microseconds per
/// stage.
BoundProgram link(const Program& program, const std::vector<ArgBinding>& args,
                  const std::vector<int64_t>& symbols, const LinkOptions& options);

/// Text form of a portable program; parse() throws std::invalid_argument with line number and
/// reason.
Program parse(const std::string& text);
std::string print(const Program& program);

/// Human-readable text of a bound program: device strides, splits, cores' shares, schedule.
std::string print(const BoundProgram& program);

/// Binary image of a bound program, the form that crosses the driver ABI. deserialize() trusts
/// nothing: it throws on any malformed or out-of-bounds image, and so serves as the verifier.
std::vector<uint8_t> serialize(const BoundProgram& program);
BoundProgram deserialize(const void* data, size_t size);

/// serialize(link(...)), for those who do not look inside.
std::vector<uint8_t> link_to_image(const Program& program, const std::vector<ArgBinding>& args,
                                   const std::vector<int64_t>& symbols, const LinkOptions& options);

}  // namespace spyre::program
