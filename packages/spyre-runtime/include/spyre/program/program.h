// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spyre/layout/formats.h"
#include "spyre/program/expr.h"
#include "spyre/program/op_table.h"

/// Device programs: what the eager kernels build, what the compiler emits, what a driver runs.
///
/// A program comes in two states that share these structs.
///
/// *Portable*: accesses count **host elements** (PyTorch's sizes, strides and offsets), extents may
/// be expressions over symbols, and nothing is known of layouts. This is the state that the
/// compiler caches on disk, and the state of the text form.
///
/// *Bound*: link() has been given, for every argument, the layout of its storage, and for every
/// symbol its value. Accesses count **device elements**; loops are split where a layout breaks a
/// stride; the division over cores is fixed; every access is proven to lie inside its buffer. Only
/// bound programs cross the driver ABI (serialize()).
///
/// So one program serves every layout its arguments may turn up in, and view resolution happens in
/// one place (spyre::layout::resolve_view, called by link()).
namespace spyre::program {

using layout::HostDtype;

/// Version of the serialised and text forms. Loaders refuse any other.
inline constexpr int kProgramVersion = 1;

enum class BufferKind : uint8_t {
  kArg,   ///< bound to a tensor at launch, in the order of declaration
  kTemp,  ///< device memory that lives as long as one launch
  kLx,    ///< scratchpad of the cores; lives as long as one launch, private to each core
};

/// A dense or strided host tensor as the program sees it. For kTemp and kLx the layout is the
/// default one of (size, dtype); for kArg it is found at link time and size/stride are only used to
/// check bounds and to print.
struct Buffer {
  std::string name;
  BufferKind kind = BufferKind::kArg;
  HostDtype dtype{};
  std::vector<Expr> size;
  std::vector<Expr> stride;
};

struct Loop {
  Expr extent;
  bool reduce = false;  ///< parallel loops come first, reduce loops after them
  int parts = 0;        ///< into how many cores' shares the loop is divided; 0: link() decides
};

/// An affine access: host offset = offset + sum(loop index * stride), in host elements relative to
/// the argument's data pointer (its storage_offset is added by link()). A load or store may add an
/// integer register to it (gather, scatter).
struct Access {
  int buffer = 0;
  std::vector<Expr> stride;  ///< one per loop of the stage; may be zero or negative
  Expr offset;
};

/// One SSA instruction on a block of lanes. Registers hold float32 lanes (types F and B, where B is
/// 0.0 or 1.0) or int64 lanes (type I). `args` are register numbers, -1 where absent.
struct Instr {
  Op op{};
  int dst = -1;
  int args[4] = {-1, -1, -1, -1};
  int access = -1;     ///< load/store: which access
  int index = -1;      ///< load/store: I register with a host element offset to add, or -1
  bool wrap = false;   ///< index_check: add the size to negative lanes first
  int predicate = -1;  ///< load/store/index_check: B register; lanes that are 0 do not touch memory
                       ///< (loads give 0)
  double fimm = 0;     ///< const_f
  Expr iimm;           ///< const_i, iota (loop number), index_check (size)
};

/// Instructions run for each iteration of the parallel loops, and, if `reduce`, of the reduce loops
/// too. A reduction instruction in a reduce phase defines a register that later phases of the stage
/// may read, once per parallel iteration. Phases of a stage run in order for one parallel iteration
/// before the next one needs to start, so a later phase may re-read what an earlier one stored at
/// the same parallel index. Registers of a phase with reduce loops, other than reductions, die with
/// the phase; registers of a phase without live on to the stage's end.
struct Phase {
  bool reduce = false;
  std::vector<Instr> body;
};

/// An iteration space divided over the cores, with a barrier after it.
struct Stage {
  std::string name;
  std::vector<Loop> loops;
  std::vector<Access> accesses;
  std::vector<Phase> phases;
};

struct Program {
  std::string name;
  std::vector<std::string> symbols;
  std::vector<Buffer> buffers;
  std::vector<Stage> stages;
};

}  // namespace spyre::program
