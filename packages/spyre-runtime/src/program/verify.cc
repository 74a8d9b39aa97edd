// SPDX-License-Identifier: Apache-2.0
#include "program/verify.h"

#include <stdexcept>

#include "program/check.h"
#include "program/schedule.h"

namespace spyre::program {
namespace {

// Bounds on numbers of an image, far above any real device, which keep sums of a few products
// exact.
constexpr int64_t kMaxElements = int64_t{1} << 48;
constexpr int64_t kMaxCores = 1 << 16;

bool mul_add(int64_t* sum, int64_t a, int64_t b) {
  int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

class Verifier {
 public:
  explicit Verifier(const BoundProgram& program) : program_(program) {}

  void run() {
    if (program_.cores < 1 || program_.cores > kMaxCores)
      fail("cores is " + std::to_string(program_.cores));
    if (program_.scratch_bytes < 0 || program_.scratch_bytes > kMaxElements)
      fail("scratch size out of range");
    int64_t lx = 0;
    for (const BoundBuffer& b : program_.buffers) {
      buffer(b);
      if (b.kind == BufferKind::kLx) lx += (b.bytes + b.parts - 1) / b.parts;
    }
    if (lx > program_.lx_bytes_per_core) {
      fail("LX buffers need " + std::to_string(lx) +
           " bytes of each core's scratchpad, there are " +
           std::to_string(program_.lx_bytes_per_core));
    }
    for (const BoundStage& s : program_.stages) stage(s);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw std::invalid_argument("program \"" + program_.name + "\" is refused: " + reason);
  }

  void buffer(const BoundBuffer& b) const {
    if (b.kind > BufferKind::kLx) fail("buffer " + b.name + " is of no known kind");
    bool known = true;
    layout::DataFormat format{};
    try {
      format = layout::device_format(b.dtype);
    } catch (const std::exception&) {
      known = false;
    }
    if (!known || format != b.format)
      fail("buffer " + b.name + " has a dtype or format that programs do not read");
    const auto info = layout::format_info(b.format);
    if (b.elements < 0 || b.elements > kMaxElements || b.bytes < 0 || b.bytes > kMaxElements ||
        b.elements * info.bits > b.bytes * 8) {
      fail("buffer " + b.name + " has " + std::to_string(b.elements) + " elements in " +
           std::to_string(b.bytes) + " bytes");
    }
    if (b.parts < 1 || b.parts > program_.cores) {
      fail("buffer " + b.name + " is spread over " + std::to_string(b.parts) + " of " +
           std::to_string(program_.cores) + " cores");
    }
    if (b.kind != BufferKind::kArg && (b.scratch_offset < 0 || b.scratch_offset % 128 != 0 ||
                                       b.scratch_offset > program_.scratch_bytes - b.bytes)) {
      fail("buffer " + b.name + " lies outside the scratch memory");
    }
  }

  void stage(const BoundStage& s) {
    const std::string where = "program \"" + program_.name + "\", stage \"" + s.name + "\"";
    auto bad = [&](const std::string& reason) { fail("stage \"" + s.name + "\": " + reason); };
    if (s.loops.size() > kMaxLoops * 4) bad("too many loops");
    bool reduce = false;
    int64_t iterations = 1;
    for (const BoundLoop& loop : s.loops) {
      if (reduce && !loop.reduce) bad("a parallel loop inside a reduce loop");
      reduce = loop.reduce;
      if (loop.extent < (loop.reduce ? 0 : 1))
        bad("a loop has extent " + std::to_string(loop.extent));
      if (loop.extent > 0 && (__builtin_mul_overflow(iterations, loop.extent, &iterations) ||
                              iterations > kMaxElements * 1024)) {
        bad("too many iterations");
      }
    }
    for (const BoundAccess& a : s.accesses) {
      if (a.buffer < -1 || a.buffer >= static_cast<int32_t>(program_.buffers.size()))
        bad("an access names no buffer");
      if (a.stride.size() != s.loops.size()) bad("an access has a wrong number of strides");
      if (a.buffer < 0 && a.indexed) bad("a sequence is indexed");
    }
    schedule(s, bad);
    instructions(s, where, bad);
    ranges(s, bad);
  }

  template <class Bad>
  void schedule(const BoundStage& s, Bad bad) const {
    const auto loops = static_cast<int32_t>(s.loops.size());
    if (s.schedule > Schedule::kMatmul) bad("unknown schedule");
    auto check_loop = [&](int32_t loop, bool reduce) {
      if (loop < -1 || loop >= loops) bad("a block runs along loop " + std::to_string(loop));
      if (loop >= 0 && s.loops[static_cast<size_t>(loop)].reduce != reduce)
        bad("a block runs along the wrong kind of loop");
    };
    check_loop(s.lane_loop, s.schedule == Schedule::kHorizontal);
    check_loop(s.row_loop, s.schedule == Schedule::kVertical);
    if (s.lane_loop >= 0 && s.lane_loop == s.row_loop) bad("lanes and rows run along one loop");
    if (s.block_lanes < 1 || s.block_rows < 1 || s.block_lanes > kMaxBlockLanes ||
        s.block_rows > kMaxBlockLanes || s.block_lanes * s.block_rows > kMaxBlockLanes) {
      bad("a block of " + std::to_string(s.block_rows) + " x " + std::to_string(s.block_lanes) +
          " lanes");
    }
    if (s.reduce_chunks < 1 || s.reduce_chunks > 4096)
      bad("a reduction in " + std::to_string(s.reduce_chunks) + " chunks");
    const bool has_dot =
        !s.phases.empty() && !s.phases[0].body.empty() && s.phases[0].body.back().op == Op::dot;
    if ((s.schedule == Schedule::kMatmul) != has_dot)
      bad("a dot without the schedule for it, or the reverse");
    bool reduces = false;
    for (const Phase& phase : s.phases) reduces = reduces || phase.reduce;
    if (s.schedule == Schedule::kPointwise && reduces)
      bad("a pointwise schedule with a reduce phase");
    if (has_dot && (s.phases.size() > 1 ? s.serial : false)) bad("a serial dot");
  }

  template <class Bad>
  void instructions(const BoundStage& s, const std::string& where, Bad bad) {
    types_ = check_phases(
        s.phases, static_cast<int>(s.accesses.size()),
        [&](int access) {
          const int32_t buffer = s.accesses[static_cast<size_t>(access)].buffer;
          return buffer < 0 ? Type::N
                            : register_type(program_.buffers[static_cast<size_t>(buffer)].dtype);
        },
        where);
    for (const Phase& phase : s.phases) {
      for (const Instr& in : phase.body) {
        if (!in.iimm.is_constant()) bad("an instruction depends on a symbol");
        if (in.op == Op::iota || is_arg_reduction(in.op)) {
          if (in.access < 0 || static_cast<size_t>(in.access) >= s.accesses.size() ||
              s.accesses[static_cast<size_t>(in.access)].buffer >= 0) {
            bad(std::string(op_info(in.op).name) + " names no sequence");
          }
        }
        const bool dot_load =
            &phase == &s.phases[0] && s.schedule == Schedule::kMatmul && in.op == Op::load;
        if (dot_load && s.accesses[static_cast<size_t>(in.access)].indexed &&
            s.accesses[static_cast<size_t>(in.access)].buffer < 0) {
          bad("a dot of a sequence");
        }
      }
    }
  }

  template <class Bad>
  void ranges(const BoundStage& s, Bad bad) const {
    const std::vector<AccessUse> uses = access_uses(s.phases, s.accesses.size());
    bool nothing_reduced = false;
    for (const BoundLoop& loop : s.loops) nothing_reduced = nothing_reduced || loop.extent == 0;
    for (size_t i = 0; i < s.accesses.size(); ++i) {
      const BoundAccess& a = s.accesses[i];
      int64_t low = 0, high = 0;
      if (!access_range(s, a, &low, &high)) bad("access " + std::to_string(i) + " overflows");
      // Twice this must not overflow, as an index is added to it.
      if (low < -kMaxElements * 1024 || high > kMaxElements * 1024)
        bad("access " + std::to_string(i) + " is out of range");
      if (a.buffer < 0 || !uses[i].used || (nothing_reduced && !uses[i].outside_reduce)) continue;
      const BoundBuffer& b = program_.buffers[static_cast<size_t>(a.buffer)];
      if (a.indexed) {
        indexed(a, b, bad);
      } else if (uses[i].index) {
        bad("access " + std::to_string(i) + " takes an index but is not indexed");
      } else if (low < 0 || high >= b.elements) {
        bad("access " + std::to_string(i) + " to " + b.name + " reaches device elements " +
            std::to_string(low) + " to " + std::to_string(high) + " of " +
            std::to_string(b.elements));
      }
    }
  }

  template <class Bad>
  void indexed(const BoundAccess& a, const BoundBuffer& b, Bad bad) const {
    if (a.host_elements < 0 || a.host_elements > kMaxElements)
      bad("an indexed access has a bad size");
    if (a.digits.size() > 512) bad("an indexed access has too many digits");
    for (const layout::Digit& d : a.digits) {
      if (d.divisor < 1 || d.device_stride < 0 || d.device_stride > kMaxElements)
        bad("an indexed access has a bad digit");
    }
    // Largest device offset: every digit at its largest quotient.
    int64_t high = 0, left = a.host_elements - 1;
    for (const layout::Digit& d : a.digits) {
      if (left < 0) break;
      if (!mul_add(&high, left / d.divisor, d.device_stride)) bad("an indexed access overflows");
      if (left >= d.divisor) left = d.divisor - 1;
    }
    if (a.host_elements > 0 && high >= b.elements) {
      bad("an indexed access to " + b.name + " may reach device element " + std::to_string(high) +
          " of " + std::to_string(b.elements));
    }
  }

  const BoundProgram& program_;
  std::vector<Type> types_;
};

}  // namespace

bool access_range(const BoundStage& stage, const BoundAccess& access, int64_t* low, int64_t* high) {
  *low = *high = access.offset;
  for (size_t l = 0; l < stage.loops.size(); ++l) {
    const int64_t last = stage.loops[l].extent > 1 ? stage.loops[l].extent - 1 : 0;
    if (!mul_add(access.stride[l] < 0 ? low : high, access.stride[l], last)) return false;
  }
  return true;
}

std::vector<AccessUse> access_uses(const std::vector<Phase>& phases, size_t access_count) {
  std::vector<AccessUse> uses(access_count);
  for (const Phase& phase : phases) {
    for (const Instr& in : phase.body) {
      if (!has_access(in.op) || in.access < 0 || static_cast<size_t>(in.access) >= access_count)
        continue;
      AccessUse& use = uses[static_cast<size_t>(in.access)];
      use.used = true;
      use.outside_reduce = use.outside_reduce || !phase.reduce;
      use.stored = use.stored || is_store(in.op);
      use.added = use.added || in.op == Op::store_add;
      use.index = use.index || in.index >= 0;
      use.plain = use.plain || in.predicate < 0;
    }
  }
  return uses;
}

void verify(const BoundProgram& program) { Verifier(program).run(); }

}  // namespace spyre::program
