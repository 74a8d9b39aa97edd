// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spyre/layout/layout.h"
#include "spyre/layout/view.h"
#include "spyre/program/program.h"

/// The bound state of a program: what link() makes, what crosses the driver ABI, what a driver
/// runs. Offsets and strides count device elements, extents are numbers. Everything that decides
/// the order of arithmetic is fixed here, from shapes and strides alone.
namespace spyre::program {

/// How the lanes of a block lie in a stage's iteration space. A block is block_rows x block_lanes
/// iterations; the loops that it does not cover run around it.
enum class Schedule : uint8_t {
  kPointwise,   ///< rows and lanes along parallel loops; nothing is reduced
  kHorizontal,  ///< lanes along a reduce loop, rows along a parallel one
  kVertical,    ///< lanes along a parallel loop, rows along a reduce one
  kMatmul,      ///< the first phase is a dot; the others run on its tiles
};
const char* schedule_name(Schedule schedule);

struct BoundBuffer {
  std::string name;
  BufferKind kind = BufferKind::kArg;
  HostDtype dtype{};
  layout::DataFormat format{};
  int64_t elements = 0;        ///< device elements, padding included
  int64_t bytes = 0;           ///< whole sticks
  int64_t scratch_offset = 0;  ///< kTemp and kLx: byte offset in the memory that a run is given
  int32_t parts = 1;           ///< kLx: cores over which it is spread
};

struct BoundLoop {
  int64_t extent = 1;
  bool reduce = false;
};

/// Offset of the iteration with index vector i: offset + sum(stride * i).
/// An affine access counts device elements. An indexed one counts host elements, which the digits
/// map to device elements; it is checked against [0, host_elements) lane by lane as it runs. With
/// buffer == -1 it is a sequence of numbers: iota, or the position that an arg reduction gives.
struct BoundAccess {
  int32_t buffer = -1;
  bool indexed = false;
  int64_t offset = 0;
  std::vector<int64_t> stride;
  int64_t host_elements = 0;
  std::vector<layout::Digit> digits;
};

struct BoundStage {
  std::string name;
  Schedule schedule = Schedule::kPointwise;
  std::vector<BoundLoop> loops;  ///< parallel ones first, outermost first
  std::vector<BoundAccess> accesses;
  std::vector<Phase> phases;  ///< with constant expressions; iota and arg reductions have an access
  int32_t lane_loop = -1;
  int32_t row_loop = -1;
  int64_t block_lanes = 1;
  int64_t block_rows = 1;
  bool serial = false;        ///< iterations run in order on one core: scatters
  int64_t reduce_chunks = 1;  ///< the reduce space is cut in so many parts, combined in order
};

struct BoundProgram {
  std::string name;
  int32_t cores = 1;
  int64_t lx_bytes_per_core = 0;
  int64_t scratch_bytes = 0;
  std::vector<BoundBuffer> buffers;
  std::vector<BoundStage> stages;
};

}  // namespace spyre::program
