// SPDX-License-Identifier: Apache-2.0
// Portable program + layouts, offsets and symbol values -> bound program.
#include "spyre/program/link.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "program/bound.h"
#include "program/check.h"
#include "program/nest.h"
#include "program/schedule.h"
#include "program/verify.h"

namespace spyre::program {
namespace {

constexpr int64_t kScratchAlignment = 128;

/// What link() knows of a buffer besides its bound form.
struct BufferLayout {
  layout::Layout own;  // of temporaries
  const layout::Layout* layout = nullptr;
  int64_t storage_offset = 0;
};

constexpr size_t kNeighbours = 1;

bool is_linear(const layout::Layout& layout) {
  return std::all_of(layout.digits().begin(), layout.digits().end(),
                     [](const layout::Digit& d) { return d.divisor == d.device_stride; }) &&
         layout.is_dense();
}

std::vector<int64_t> evaluate(const std::vector<Expr>& exprs, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> out;
  out.reserve(exprs.size());
  for (const Expr& e : exprs) out.push_back(e.evaluate(symbols));
  return out;
}

class StageLinker {
 public:
  StageLinker(const Program& program, const Stage& stage, const std::vector<BufferLayout>& layouts,
              const BoundProgram& bound, const std::vector<int64_t>& symbols)
      : program_(program), stage_(stage), layouts_(layouts), bound_(bound), symbols_(symbols) {}

  /// False if the stage has nothing to do.
  bool run(BoundStage* out) {
    out_ = out;
    out->name = stage_.name;
    if (!evaluate_loops()) return false;
    uses_ = access_uses(stage_.phases, stage_.accesses.size());
    resolve_accesses();
    bind_phases();
    drop_unit_loops(*out);
    decide_order();
    schedule_stage(*out);
    return true;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw std::invalid_argument("cannot link program \"" + program_.name + "\", stage \"" +
                                stage_.name + "\": " + reason);
  }

  const std::string& buffer_name(int access) const {
    return program_
        .buffers[static_cast<size_t>(stage_.accesses[static_cast<size_t>(access)].buffer)]
        .name;
  }

  bool evaluate_loops() {
    for (const Loop& loop : stage_.loops) {
      const int64_t extent = loop.extent.evaluate(symbols_);
      if (extent < 0) fail("a loop has extent " + std::to_string(extent));
      if (extent == 0 && !loop.reduce) return false;
      nothing_reduced_ = nothing_reduced_ || extent == 0;
      loops_.push_back({extent, loop.reduce});
    }
    // An empty reduce space is one empty loop, whatever the other reduce extents are.
    if (nothing_reduced_) {
      for (BoundLoop& loop : loops_) {
        if (loop.reduce) loop.extent = 0;
      }
    }
    return true;
  }

  /// Extents to resolve views with: an empty reduce space still has phases around it.
  std::vector<int64_t> extents() const {
    std::vector<int64_t> out;
    for (const BoundLoop& loop : loops_) out.push_back(std::max<int64_t>(loop.extent, 1));
    return out;
  }

  struct Resolved {
    BoundAccess access;
    bool split = false;  // else `linear` strides
    std::vector<SplitLoop> splits;
    std::vector<int64_t> linear;
  };

  void resolve_accesses() {
    Refiner refiner(loops_);
    std::vector<Resolved> resolved;
    for (size_t i = 0; i < stage_.accesses.size(); ++i) {
      Resolved r = resolve(static_cast<int>(i));
      if (r.split && !refiner.accept(r.splits)) r = indexed(static_cast<int>(i));
      resolved.push_back(std::move(r));
    }
    out_->loops = refiner.loops();
    for (Resolved& r : resolved) {
      r.access.stride = r.split ? refiner.strides(r.splits) : refiner.strides(r.linear);
      out_->accesses.push_back(std::move(r.access));
    }
    add_sequences(refiner);
  }

  Resolved resolve(int index) {
    const Access& a = stage_.accesses[static_cast<size_t>(index)];
    const AccessUse& use = uses_[static_cast<size_t>(index)];
    const BufferLayout& buffer = layouts_[static_cast<size_t>(a.buffer)];
    if (!use.used || (nothing_reduced_ && !use.outside_reduce)) return unused(index);
    if (use.index) return indexed(index);
    const std::vector<int64_t> stride = evaluate(a.stride, symbols_);
    const int64_t offset = a.offset.evaluate(symbols_) + buffer.storage_offset;
    const std::vector<int64_t> size = extents();
    Resolved r;
    r.access.buffer = a.buffer;
    if (is_linear(*buffer.layout)) {
      BoundStage probe;
      for (int64_t e : size) probe.loops.push_back({e, false});
      r.access.stride = r.linear = stride;
      r.access.offset = offset;
      int64_t low = 0, high = 0;
      if (access_range(probe, r.access, &low, &high) && low >= 0 &&
          high < buffer.layout->host_span())
        return r;
      if (!use.plain) return indexed(index);
      fail("access " + std::to_string(index) + " to " + buffer_name(index) +
           " reaches host elements " + std::to_string(low) + " to " + std::to_string(high) +
           " of " + std::to_string(buffer.layout->host_span()));
    }
    try {
      const layout::DeviceView view = layout::resolve_view(*buffer.layout, size, stride, offset);
      if (!view.affine) return indexed(index);
      r.split = true;
      r.access.offset = view.device_offset;
      r.splits.resize(size.size());
      for (const layout::ViewLoop& loop : view.loops) {
        r.splits[static_cast<size_t>(loop.dim)].push_back({loop.extent, loop.device_stride});
      }
      return r;
    } catch (const std::out_of_range& error) {
      if (!use.plain) return indexed(index);
      fail("access " + std::to_string(index) + " to " + buffer_name(index) + ": " + error.what());
    }
  }

  Resolved unused(int index) const {
    Resolved r;
    r.access.buffer = stage_.accesses[static_cast<size_t>(index)].buffer;
    r.linear.assign(loops_.size(), 0);
    return r;
  }

  Resolved indexed(int index) const {
    const Access& a = stage_.accesses[static_cast<size_t>(index)];
    const BufferLayout& buffer = layouts_[static_cast<size_t>(a.buffer)];
    Resolved r;
    r.access.buffer = a.buffer;
    r.access.indexed = true;
    r.access.offset = a.offset.evaluate(symbols_) + buffer.storage_offset;
    r.access.host_elements = buffer.layout->host_span();
    r.access.digits = buffer.layout->digits();
    r.linear = evaluate(a.stride, symbols_);
    return r;
  }

  /// Sequences of numbers that instructions need: one per loop with an iota, one for arg
  /// reductions.
  void add_sequences(const Refiner& refiner) {
    auto add = [&](const std::vector<int64_t>& linear) {
      BoundAccess a;
      a.stride = refiner.strides(linear);
      out_->accesses.push_back(std::move(a));
      return static_cast<int>(out_->accesses.size()) - 1;
    };
    for (const Phase& phase : stage_.phases) {
      for (const Instr& in : phase.body) {
        if (in.op == Op::iota && !iotas_.count(in.iimm.value())) {
          std::vector<int64_t> linear(loops_.size(), 0);
          linear[static_cast<size_t>(in.iimm.value())] = 1;
          iotas_[in.iimm.value()] = add(linear);
        } else if (is_arg_reduction(in.op) && position_ < 0) {
          std::vector<int64_t> linear(loops_.size(), 0);
          int64_t step = 1;
          for (size_t l = loops_.size(); l-- > 0;) {
            if (!loops_[l].reduce) continue;
            linear[l] = step;
            step *= loops_[l].extent;
          }
          position_ = add(linear);
        }
      }
    }
  }

  void bind_phases() {
    out_->phases = stage_.phases;
    for (Phase& phase : out_->phases) {
      for (Instr& in : phase.body) {
        if (in.op == Op::iota) in.access = iotas_.at(in.iimm.value());
        if (is_arg_reduction(in.op)) in.access = position_;
        if (in.op == Op::iota) in.iimm = 0;
        in.iimm = Expr(in.iimm.evaluate(symbols_));
      }
    }
  }

  void decide_order() {
    std::vector<int> priority;
    for (bool stored : {true, false}) {
      for (size_t i = 0; i < uses_.size(); ++i) {
        if (uses_[i].used && uses_[i].stored == stored) priority.push_back(static_cast<int>(i));
      }
    }
    // Iterations may meet at one address when an index says where to store: then their order
    // counts.
    for (size_t i = 0; i < uses_.size(); ++i) {
      if (!uses_[i].stored || (!uses_[i].index && injective(out_->accesses[i]))) continue;
      if (has_dot()) {
        fail("a matrix product stores to " + buffer_name(i) +
             (uses_[i].index ? " at an index" : ", where iterations meet at one address") +
             ", but its iterations have no order; store the product first and write it there in "
             "another stage");
      }
      out_->serial = true;
    }
    if (!out_->serial) order_loops(*out_, priority);
    merge_loops(*out_);
  }

  bool has_dot() const {
    return !stage_.phases.empty() && !stage_.phases[0].body.empty() &&
           stage_.phases[0].body.back().op == Op::dot;
  }

  /// Whether different parallel iterations are proven to have different offsets.
  bool injective(const BoundAccess& a) const {
    std::vector<std::pair<int64_t, int64_t>> steps;
    for (size_t l = 0; l < out_->loops.size(); ++l) {
      if (out_->loops[l].extent > 1 && !(out_->loops[l].reduce && a.stride[l] == 0)) {
        steps.emplace_back(std::abs(a.stride[l]), out_->loops[l].extent);
      }
    }
    std::sort(steps.begin(), steps.end());
    int64_t reach = 0;
    for (auto [stride, extent] : steps) {
      if (stride <= reach) return false;
      reach += stride * (extent - 1);
    }
    return true;
  }

  const Program& program_;
  const Stage& stage_;
  const std::vector<BufferLayout>& layouts_;
  const BoundProgram& bound_;
  const std::vector<int64_t>& symbols_;
  BoundStage* out_ = nullptr;
  std::vector<BoundLoop> loops_;
  std::vector<AccessUse> uses_;
  std::map<int64_t, int> iotas_;
  int position_ = -1;
  bool nothing_reduced_ = false;
};

class Linker {
 public:
  Linker(const Program& program, const std::vector<ArgBinding>& args,
         const std::vector<int64_t>& symbols, const LinkOptions& options)
      : program_(program), args_(args), symbols_(symbols), options_(options) {}

  BoundProgram run() {
    if (symbols_.size() != program_.symbols.size()) {
      fail("it has " + std::to_string(program_.symbols.size()) + " symbols, " +
           std::to_string(symbols_.size()) + " values were given");
    }
    check(program_);
    out_.name = program_.name;
    out_.cores = options_.cores;
    out_.lx_bytes_per_core = options_.lx_bytes_per_core;
    bind_buffers();
    for (const Stage& stage : program_.stages) {
      BoundStage bound;
      if (StageLinker(program_, stage, layouts_, out_, symbols_).run(&bound))
        out_.stages.push_back(std::move(bound));
    }
    place_scratch();
    divide_lx();
    verify(out_);
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw std::invalid_argument("cannot link program \"" + program_.name + "\": " + reason);
  }

  void bind_buffers() {
    const auto wanted = static_cast<size_t>(
        std::count_if(program_.buffers.begin(), program_.buffers.end(),
                      [](const Buffer& b) { return b.kind == BufferKind::kArg; }));
    if (wanted != args_.size()) {
      fail("it has " + std::to_string(wanted) + " arguments, " + std::to_string(args_.size()) +
           " were given");
    }
    layouts_.resize(program_.buffers.size());
    size_t next = 0;
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& b = program_.buffers[i];
      BufferLayout& l = layouts_[i];
      if (b.kind == BufferKind::kArg) {
        const ArgBinding& arg = args_[next++];
        if (arg.layout == nullptr) fail("argument " + b.name + " has no layout");
        if (arg.dtype != b.dtype) {
          fail("argument " + b.name + " is " + std::string(layout::host_dtype_name(arg.dtype)) +
               ", expected " + std::string(layout::host_dtype_name(b.dtype)));
        }
        l.layout = arg.layout;
        l.storage_offset = arg.storage_offset;
      } else {
        l.own = layout::Layout::strided(evaluate(b.size, symbols_), evaluate(b.stride, symbols_),
                                        b.dtype);
        l.layout = &l.own;
      }
      BoundBuffer bound;
      bound.name = b.name;
      bound.kind = b.kind;
      bound.dtype = b.dtype;
      bound.format = l.layout->format();
      if (bound.format != layout::device_format(b.dtype)) {
        fail("argument " + b.name + " is " + std::string(layout::host_dtype_name(b.dtype)) +
             " stored as " + std::string(layout::format_info(bound.format).name) +
             ", which programs do not read");
      }
      bound.elements = l.layout->device_numel();
      bound.bytes = l.layout->device_bytes();
      out_.buffers.push_back(std::move(bound));
    }
  }

  /// First and last stage that names each buffer; temporaries whose lives do not meet share memory.
  /// Lives reach a few stages farther than they must, so that a device may work through
  /// neighbouring stages together, piece by piece.
  void place_scratch() {
    struct Life {
      size_t buffer, first, last;
    };
    std::vector<Life> lives;
    for (size_t b = 0; b < out_.buffers.size(); ++b) {
      if (out_.buffers[b].kind == BufferKind::kArg) continue;
      Life life{b, SIZE_MAX, 0};
      for (size_t s = 0; s < out_.stages.size(); ++s) {
        for (const BoundAccess& a : out_.stages[s].accesses) {
          if (a.buffer != static_cast<int32_t>(b)) continue;
          life.first = std::min(life.first, s);
          life.last = s;
        }
      }
      if (life.first == SIZE_MAX) continue;
      life.first -= std::min(life.first, kNeighbours);
      life.last += kNeighbours;
      lives.push_back(life);
    }
    std::stable_sort(lives.begin(), lives.end(), [&](const Life& a, const Life& b) {
      return out_.buffers[a.buffer].bytes > out_.buffers[b.buffer].bytes;
    });
    std::vector<Life> placed;
    for (const Life& life : lives) {
      BoundBuffer& buffer = out_.buffers[life.buffer];
      int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (const Life& other : placed) {
          const BoundBuffer& o = out_.buffers[other.buffer];
          const bool in_time = life.first <= other.last && other.first <= life.last;
          const bool in_space =
              offset < o.scratch_offset + o.bytes && o.scratch_offset < offset + buffer.bytes;
          if (!in_time || !in_space) continue;
          offset = (o.scratch_offset + o.bytes + kScratchAlignment - 1) / kScratchAlignment *
                   kScratchAlignment;
          moved = true;
        }
      }
      buffer.scratch_offset = offset;
      out_.scratch_bytes = std::max(out_.scratch_bytes, offset + buffer.bytes);
      placed.push_back(life);
    }
  }

  /// A loop that a stage divides, as an LX buffer sees it.
  struct Share {
    int64_t parts, step, extent;
    bool operator==(const Share&) const = default;
  };

  /// An LX buffer is spread over the cores, each holding what its own share of the iterations
  /// writes and reads. So every stage that names it must divide its loops alike and walk the buffer
  /// alike.
  void divide_lx() {
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      if (program_.buffers[b].kind != BufferKind::kLx) continue;
      const std::string& name = program_.buffers[b].name;
      std::optional<std::vector<Share>> common;
      for (const Stage& stage : program_.stages) {
        for (const Access& a : stage.accesses) {
          if (a.buffer != static_cast<int>(b)) continue;
          std::vector<Share> mine = shares(stage, a);
          for (const Share& share : mine) {
            if (share.step == 0) {
              fail("LX buffer " + name + " is used by stage \"" + stage.name +
                   "\", which divides a loop that does not move in it; scratchpads are private to "
                   "a core: keep it in device memory");
            }
          }
          if (common && *common != mine) {
            fail("LX buffer " + name + " is divided in " + parts_text(*common) +
                 " parts by one stage and otherwise by stage \"" + stage.name +
                 "\"; scratchpads are private to a core: keep it in device memory");
          }
          common = std::move(mine);
        }
      }
      int64_t parts = 1;
      for (const Share& share : common.value_or(std::vector<Share>{})) {
        if (__builtin_mul_overflow(parts, share.parts, &parts) || parts > options_.cores) {
          fail("LX buffer " + name + " is divided in " + parts_text(*common) +
               " parts, but the device has " + std::to_string(options_.cores) +
               " cores; compile the program for that many, with SENCORES=" +
               std::to_string(options_.cores) + ", or keep the buffer in device memory");
        }
      }
      out_.buffers[b].parts = static_cast<int32_t>(parts);
    }
  }

  /// The loops that a stage divides; its parts are numbered in the order of the loops.
  std::vector<Share> shares(const Stage& stage, const Access& a) const {
    std::vector<Share> out;
    for (size_t l = 0; l < stage.loops.size(); ++l) {
      if (stage.loops[l].parts <= 1) continue;
      Share share{stage.loops[l].parts, a.stride[l].evaluate(symbols_),
                  stage.loops[l].extent.evaluate(symbols_)};
      // Two loops that walk the buffer as one, the outer cut to single steps, are one.
      if (!out.empty() && share.extent % share.parts == 0 &&
          out.back().parts == out.back().extent && out.back().step == share.step * share.extent) {
        share.parts *= out.back().parts;
        share.extent *= out.back().extent;
        out.pop_back();
      }
      out.push_back(share);
    }
    return out;
  }

  static std::string parts_text(const std::vector<Share>& shares) {
    std::string out;
    for (const Share& share : shares)
      out.append(out.empty() ? "" : " x ").append(std::to_string(share.parts));
    return out.empty() ? "1" : out;
  }

  const Program& program_;
  const std::vector<ArgBinding>& args_;
  const std::vector<int64_t>& symbols_;
  const LinkOptions& options_;
  std::vector<BufferLayout> layouts_;
  BoundProgram out_;
};

}  // namespace

BoundProgram link(const Program& program, const std::vector<ArgBinding>& args,
                  const std::vector<int64_t>& symbols, const LinkOptions& options) {
  return Linker(program, args, symbols, options).run();
}

}  // namespace spyre::program
