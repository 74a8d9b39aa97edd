// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/plan.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "program/check.h"
#include "softdev/vm/fuse.h"

namespace spyre::softdev {
namespace {

using program::BoundAccess;
using program::BoundProgram;
using program::HostDtype;
using program::Instr;
using program::Phase;
using program::Schedule;

constexpr uint32_t kAlignment = 64;
// With fewer lanes than this, one call per row costs more than writing an operand out.
constexpr int64_t kRowCallLanes = 32;

Codec codec_of(HostDtype dtype) {
  switch (dtype) {
    case HostDtype::kBool: return Codec::kSen169Bool;
    case HostDtype::kFloat32: return Codec::kFp32;
    case HostDtype::kFloat8E4M3FN: return Codec::kSen143;
    case HostDtype::kFloat8E5M2FNUZ: return Codec::kSen152;
    case HostDtype::kInt8: return Codec::kInt8;
    case HostDtype::kInt16: return Codec::kInt16;
    case HostDtype::kInt32: return Codec::kInt32;
    case HostDtype::kInt64: return Codec::kInt64;
    case HostDtype::kUInt8: return Codec::kUInt8;
    default: return Codec::kSen169;
  }
}

/// Nanoseconds per lane, roughly.
double lane_cost(Op op) {
  switch (op) {
    case Op::load:
    case Op::store: return 0.15;
    case Op::exp:
    case Op::sigmoid:
    case Op::silu:
    case Op::tanh:
    case Op::gelu_tanh: return 0.6;
    case Op::add:
    case Op::sub:
    case Op::mul: return 0.06;
    default:
      return program::op_info(op).result == program::Type::F && program::op_info(op).arity == 1
                 ? 1.0
                 : 0.2;
  }
}

double lane_cost(const Step& s) {
  if (s.kind != Step::Kind::kFused) return lane_cost(s.op);
  double cost = 0;
  for (const FusedPart& part : s.fused) {
    if (part.access >= 0) cost += lane_cost(Op::load);
    if (part.kind == FusedKind::kMap || part.kind == FusedKind::kMapLeft)
      cost += lane_cost(part.op);
  }
  return cost;
}

/// A value that some step computes.
struct Value {
  Shape shape = kScalar;
  uint8_t bytes = 4;
  // Positions of the step that defines it and the last that reads it; -1: no step does.
  int first = -1, last = -1;
  int birth_phase = 0;  // -1: constant
  // Lane i is written after lane i of every operand is read, and operands have lanes of this size:
  // the step may write over an operand that dies with it.
  bool in_place = false;
  uint32_t offset = 0;
};

class Planner {
 public:
  Planner(const BoundProgram& program, const BoundStage& stage)
      : program_(program), stage_(stage) {}

  StagePlan run() {
    plan_.stage = &stage_;
    plan_.horizontal = stage_.schedule == Schedule::kHorizontal;
    plan_accesses();
    plan_dims();
    int registers = 0;
    for (const Phase& phase : stage_.phases) {
      for (const Instr& in : phase.body) registers = std::max(registers, in.dst + 1);
    }
    value_of_.assign(static_cast<size_t>(registers), -1);
    for (size_t p = 0; p < stage_.phases.size(); ++p) plan_phase(p);
    fuse();
    find_lives();
    place_registers();
    estimate();
    return std::move(plan_);
  }

 private:
  bool has_rows() const { return stage_.row_loop >= 0; }
  bool has_cols() const { return stage_.lane_loop >= 0; }

  void plan_accesses() {
    for (const BoundAccess& a : stage_.accesses) {
      AccessPlan p;
      p.buffer = a.buffer;
      p.indexed = a.indexed;
      p.offset = a.offset;
      p.host_elements = a.host_elements;
      p.digits = a.digits;
      if (a.buffer >= 0) p.codec = codec_of(program_.buffers[static_cast<size_t>(a.buffer)].dtype);
      p.bytes = codec_bytes(p.codec);
      if (has_rows()) p.row_stride = a.stride[static_cast<size_t>(stage_.row_loop)];
      if (has_cols()) p.col_stride = a.stride[static_cast<size_t>(stage_.lane_loop)];
      plan_.accesses.push_back(std::move(p));
    }
  }

  void add_dim(std::vector<Dim>& dims, Dim::Kind kind, int64_t count, size_t loop, int64_t scale) {
    Dim dim{kind, count, {}};
    for (const BoundAccess& a : stage_.accesses) dim.step.push_back(a.stride[loop] * scale);
    dims.push_back(std::move(dim));
  }

  void plan_dims() {
    // The loops that a block covers go innermost, as tiles; a loop of one tile is no direction at
    // all.
    for (size_t l = 0; l < stage_.loops.size(); ++l) {
      const auto loop = static_cast<int32_t>(l);
      if (loop == stage_.lane_loop || loop == stage_.row_loop) continue;
      add_dim(stage_.loops[l].reduce ? plan_.inner : plan_.outer, Dim::Kind::kLoop,
              stage_.loops[l].extent, l, 1);
    }
    auto tiles = [&](int32_t loop, int64_t block, Dim::Kind kind, int64_t* extent) {
      if (loop < 0) return;
      const auto l = static_cast<size_t>(loop);
      *extent = stage_.loops[l].extent;
      add_dim(stage_.loops[l].reduce ? plan_.inner : plan_.outer, kind,
              (*extent + block - 1) / block, l, block);
    };
    tiles(stage_.row_loop, stage_.block_rows, Dim::Kind::kRowTiles, &plan_.row_extent);
    tiles(stage_.lane_loop, stage_.block_lanes, Dim::Kind::kColTiles, &plan_.col_extent);
    for (size_t a = 0; a < plan_.accesses.size(); ++a) {
      for (const auto* dims : {&plan_.outer, &plan_.inner}) {
        for (const Dim& d : *dims) {
          if (d.count > 1) plan_.accesses[a].ahead = d.step[a];
        }
      }
    }
    for (const Dim& d : plan_.outer) plan_.units *= d.count;
    for (const Dim& d : plan_.inner) plan_.reduce_steps *= d.count;
  }

  // --- values ------------------------------------------------------------------------------------

  int new_value(Shape shape, int bytes) {
    Value v;
    v.shape = shape;
    v.bytes = static_cast<uint8_t>(bytes);
    v.birth_phase = static_cast<int>(phase_);
    values_.push_back(v);
    return static_cast<int>(values_.size()) - 1;
  }

  /// The offset is a value's number until registers are placed.
  Operand operand(int value) const {
    return {static_cast<uint32_t>(value), values_[static_cast<size_t>(value)].shape};
  }

  Shape shape_of(int value) const { return values_[static_cast<size_t>(value)].shape; }

  /// Directions along which a phase has lanes.
  Shape lanes() const {
    const Shape both = (has_rows() ? kRows : kScalar) | (has_cols() ? kCols : kScalar);
    if (stage_.schedule == Schedule::kHorizontal && !reduce_) return both & kRows;
    if (stage_.schedule == Schedule::kVertical && !reduce_) return both & kCols;
    return both;
  }

  Shape access_shape(int access) const {
    const AccessPlan& a = plan_.accesses[static_cast<size_t>(access)];
    return ((a.row_stride != 0 ? kRows : kScalar) | (a.col_stride != 0 ? kCols : kScalar)) &
           lanes();
  }

  void emit(Step step) { steps_->push_back(std::move(step)); }

  /// The value in a wider shape.
  int expand(int value, Shape shape) {
    if (shape_of(value) == shape) return value;
    const std::vector<int64_t> key{-1, value, shape};
    if (int known = lookup(key); known >= 0) return known;
    const int bytes = values_[static_cast<size_t>(value)].bytes;
    const int wide = new_value(shape, bytes);
    Step s;
    s.kind = Step::Kind::kExpand;
    s.bytes = static_cast<uint8_t>(bytes);
    s.args[0] = operand(value);
    s.dst = operand(wide);
    emit(s);
    remember(key, wide);
    return wide;
  }

  // --- value numbering ---------------------------------------------------------------------------

  int lookup(const std::vector<int64_t>& key) const {
    auto it = known_.find(key);
    return it == known_.end() ? -1 : it->second;
  }
  void remember(const std::vector<int64_t>& key, int value) { known_[key] = value; }

  /// What a reduce phase of several blocks computed is gone when it ends.
  void forget(size_t phase) {
    std::erase_if(known_, [&](const auto& entry) {
      return values_[static_cast<size_t>(entry.second)].birth_phase == static_cast<int>(phase);
    });
  }

  int arg(const Instr& in, int i) const { return value_of_[static_cast<size_t>(in.args[i])]; }

  // --- instructions ------------------------------------------------------------------------------

  void plan_phase(size_t p) {
    const Phase& phase = stage_.phases[p];
    plan_.phases.emplace_back().reduce = phase.reduce;
    phase_ = p;
    reduce_ = phase.reduce;
    steps_ = &plan_.phases.back().steps;
    if (stage_.schedule == Schedule::kMatmul && p == 0) {
      const Instr& dot = phase.body.back();
      const int value = new_value(lanes(), 4);
      value_of_[static_cast<size_t>(dot.dst)] = value;
      product_ = value;
    } else {
      for (const Instr& in : phase.body) instruction(in);
    }
    if (phase.reduce && plan_.reduce_steps != 1) forget(p);
    plan_.phases.back().reductions.clear();
  }

  void instruction(const Instr& in) {
    if (in.op == Op::const_f || in.op == Op::const_i) return constant(in);
    if (program::is_store(in.op)) return store(in);
    std::vector<int64_t> key{static_cast<int64_t>(in.op), in.access, in.iimm.value(), in.wrap};
    for (int i = 0; i < program::op_info(in.op).arity; ++i) key.push_back(arg(in, i));
    key.push_back(in.index < 0 ? -1 : value_of_[static_cast<size_t>(in.index)]);
    key.push_back(in.predicate < 0 ? -1 : value_of_[static_cast<size_t>(in.predicate)]);
    // A load may give something else after a store; a value without lanes of this phase is not this
    // one.
    key.push_back(in.op == Op::load ? epoch_ : 0);
    key.push_back(lanes());
    int value = lookup(key);
    if (value < 0) {
      value = compute(in);
      if (!program::is_reduction(in.op)) remember(key, value);
    }
    value_of_[static_cast<size_t>(in.dst)] = value;
  }

  void constant(const Instr& in) {
    const bool is_float = in.op == Op::const_f;
    int64_t bits = in.iimm.value();
    const auto f = static_cast<float>(in.fimm);
    if (is_float) {
      int32_t b = 0;
      std::memcpy(&b, &f, sizeof b);
      bits = b;
    }
    const std::vector<int64_t> key{-2, is_float, bits};
    int value = lookup(key);
    if (value < 0) {
      value = new_value(kScalar, is_float ? 4 : 8);
      values_.back().birth_phase = -1;
      plan_.constants.push_back({static_cast<uint32_t>(value),
                                 static_cast<uint8_t>(is_float ? 4 : 8), f, in.iimm.value()});
      remember(key, value);
    }
    value_of_[static_cast<size_t>(in.dst)] = value;
  }

  int compute(const Instr& in) {
    if (in.op == Op::load) return load(in);
    if (in.op == Op::iota) return sequence(in);
    if (in.op == Op::index_check) return index_check(in);
    if (program::is_reduction(in.op)) return reduction(in);
    return map(in);
  }

  int result_bytes(const Instr& in) const {
    return program::op_info(in.op).result == program::Type::I ? 8 : 4;
  }

  /// Sets what loads, stores and checks share; returns the shape that index and predicate add.
  Shape guards(const Instr& in, Step* s) {
    Shape shape = kScalar;
    if (in.index >= 0) {
      s->index = operand(value_of_[static_cast<size_t>(in.index)]);
      s->has_index = true;
      shape = shape | s->index.shape;
    }
    if (in.predicate >= 0) {
      s->predicate = operand(value_of_[static_cast<size_t>(in.predicate)]);
      s->masked = true;
      shape = shape | s->predicate.shape;
    }
    return shape;
  }

  int load(const Instr& in) {
    Step s;
    s.kind = Step::Kind::kLoad;
    s.op = in.op;
    s.access = in.access;
    const AccessPlan& a = plan_.accesses[static_cast<size_t>(in.access)];
    s.indexed = a.indexed;
    s.bytes = a.codec >= Codec::kInt8 ? 8 : 4;
    const Shape shape = access_shape(in.access) | guards(in, &s);
    const int value = new_value(shape, s.bytes);
    s.dst = operand(value);
    emit(s);
    return value;
  }

  void store(const Instr& in) {
    const int value = expand(arg(in, 0), lanes());
    Step s;
    s.kind = Step::Kind::kStore;
    s.op = in.op;
    s.access = in.access;
    const AccessPlan& a = plan_.accesses[static_cast<size_t>(in.access)];
    s.indexed = a.indexed;
    s.bytes = a.codec >= Codec::kInt8 ? 8 : 4;
    guards(in, &s);
    s.args[0] = operand(value);
    s.dst.shape = lanes();
    emit(s);
    ++epoch_;
  }

  int sequence(const Instr& in) {
    Step s;
    s.kind = Step::Kind::kSequence;
    s.op = in.op;
    s.access = in.access;
    s.bytes = 8;
    const int value = new_value(access_shape(in.access), 8);
    s.dst = operand(value);
    emit(s);
    return value;
  }

  int index_check(const Instr& in) {
    Step s;
    s.kind = Step::Kind::kCheck;
    s.op = in.op;
    s.imm = in.iimm.value();
    s.wrap = in.wrap;
    s.bytes = 8;
    const Shape shape = guards(in, &s) | shape_of(arg(in, 0));
    s.args[0] = operand(expand(arg(in, 0), shape));
    const int value = new_value(shape, 8);
    s.dst = operand(value);
    emit(s);
    return value;
  }

  int reduction(const Instr& in) {
    const int source = expand(arg(in, 0), lanes());
    const bool sums = in.op == Op::reduce_sum, args = program::is_arg_reduction(in.op);
    const Shape shape = lanes() & (plan_.horizontal ? kRows : kCols);
    Step s;
    s.kind = Step::Kind::kReduce;
    s.op = in.op;
    s.access = in.access;
    s.args[0] = operand(source);
    // An arg reduction gives its positions.
    const int bytes = values_[static_cast<size_t>(source)].bytes;
    const int acc = new_value(shape, bytes);
    int aux = acc;
    if (sums || args) aux = new_value(shape, args ? 8 : 4);
    s.acc = static_cast<uint32_t>(acc);
    s.aux = static_cast<uint32_t>(aux);
    s.bytes = static_cast<uint8_t>(bytes);
    const int result = args ? aux : acc;
    s.dst = operand(result);
    emit(s);
    return result;
  }

  int map(const Instr& in) {
    Step s;
    s.kind = Step::Kind::kMap;
    s.op = in.op;
    s.arity = program::op_info(in.op).arity;
    s.bytes = static_cast<uint8_t>(result_bytes(in));
    Shape shape = kScalar;
    int args[4] = {-1, -1, -1, -1};
    for (int i = 0; i < s.arity; ++i) {
      args[i] = arg(in, i);
      shape = shape | shape_of(args[i]);
    }
    const auto& modes = kernels().map[static_cast<size_t>(in.op)];
    auto mode = Mode::kLanes;
    if (s.arity == 2 && modes[static_cast<size_t>(Mode::kScalarRight)] != nullptr &&
        shape != kScalar) {
      mode = choose_mode(shape, args, &s.by_row);
    } else {
      for (int i = 0; i < s.arity; ++i) args[i] = expand(args[i], shape);
    }
    s.map = modes[static_cast<size_t>(mode)];
    for (int i = 0; i < s.arity; ++i) s.args[i] = operand(args[i]);
    const int value = new_value(shape, s.bytes);
    values_.back().in_place = !s.by_row && std::all_of(args, args + s.arity, [&](int a) {
      return values_[static_cast<size_t>(a)].bytes == s.bytes;
    });
    s.dst = operand(value);
    emit(s);
    return value;
  }

  /// How to call a two-operand kernel on operands of these shapes; widens those that fit no other
  /// way.
  Mode choose_mode(Shape shape, int* args, bool* by_row) {
    if (shape_of(args[0]) == shape && shape_of(args[1]) == shape) return Mode::kLanes;
    if (shape_of(args[1]) == kScalar) return Mode::kScalarRight;
    if (shape_of(args[0]) == kScalar) return Mode::kScalarLeft;
    // Now the shape is full, and one operand varies along rows or columns only.
    if (stage_.block_lanes >= kRowCallLanes) {
      *by_row = true;
      if (shape_of(args[1]) == kRows) return Mode::kScalarRight;
      if (shape_of(args[0]) == kRows) return Mode::kScalarLeft;
      return Mode::kLanes;
    }
    for (int i : {0, 1}) args[i] = expand(args[i], shape);
    return Mode::kLanes;
  }

  // --- registers ---------------------------------------------------------------------------------

  int64_t lanes_of(Shape shape) const {
    return ((shape & kRows) ? stage_.block_rows : 1) * ((shape & kCols) ? stage_.block_lanes : 1);
  }

  /// Calls visit(operand, is_written) for all that a step reads and writes.
  template <class Visit>
  void visit_operands(Step& s, Visit visit) {
    for (int i = 0; i < s.reads(); ++i) visit(s.args[i], false);
    if (s.has_index) visit(s.index, false);
    if (s.masked) visit(s.predicate, false);
    for (FusedPart& part : s.fused) {
      if (part.reads_register() || part.writes_register())
        visit(part.operand, part.writes_register());
    }
    if (s.kind != Step::Kind::kStore && s.kind != Step::Kind::kFused) visit(s.dst, true);
  }

  void fuse() {
    if (stage_.block_lanes < kRowCallLanes) return;
    std::vector<ValueFacts> facts(values_.size());
    for (size_t v = 0; v < values_.size(); ++v) facts[v].shape = values_[v].shape;
    for (PhasePlan& phase : plan_.phases) {
      for (Step& s : phase.steps) {
        visit_operands(s, [&](const Operand& o, bool is_written) {
          if (!is_written) ++facts[o.offset].reads;
        });
      }
    }
    for (PhasePlan& phase : plan_.phases) {
      reduce_ = phase.reduce;
      phase.steps = fuse_steps(phase.steps, facts, plan_.accesses, lanes(), product_);
      for (const Step& s : phase.steps) allow_in_place(s);
    }
  }

  /// What a fused step writes last may lie where blocks lie that it read.
  void allow_in_place(const Step& s) {
    bool blocks_only = true;
    const FusedPart* last = nullptr;
    for (const FusedPart& part : s.fused) {
      if (part.writes_register()) {
        values_[part.operand.offset].in_place = false;
        last = &part;
      } else if (part.reads_register()) {
        last = nullptr;
        const bool is_constant = values_[part.operand.offset].birth_phase < 0;
        blocks_only = blocks_only && (is_constant || part.operand.shape == s.dst.shape);
      }
    }
    if (last != nullptr) values_[last->operand.offset].in_place = blocks_only;
  }

  void find_lives() {
    int position = 0;
    auto visit = [&](const Operand& o, bool is_written) {
      Value& v = values_[o.offset];
      if (is_written && v.first < 0) v.first = position;
      v.last = position;
    };
    for (size_t p = 0; p < plan_.phases.size(); ++p) {
      phase_first_.push_back(position);
      if (p == 0 && product_ >= 0) visit(operand(product_), true);
      for (Step& s : plan_.phases[p].steps) {
        visit_operands(s, visit);
        if (s.kind == Step::Kind::kReduce) {
          // Accumulators live from the start of the phase to its end, where they are combined.
          for (uint32_t v : {s.acc, s.aux}) values_[v].first = phase_first_[p];
        }
        ++position;
      }
      phase_last_.push_back(++position);
    }
    plan_.keeps_product = product_ >= 0 && values_[static_cast<size_t>(product_)].last > 0;
    for (PhasePlan& phase : plan_.phases) {
      for (const Step& s : phase.steps) {
        if (s.kind != Step::Kind::kReduce) continue;
        for (uint32_t v : {s.acc, s.aux}) {
          const int end = phase_last_[static_cast<size_t>(values_[v].birth_phase)];
          values_[v].last = std::max(values_[v].last, end);
        }
      }
    }
    for (Value& v : values_) {
      if (v.birth_phase < 0) {
        v.last = position + 1;
        continue;
      }
      // It lives to the end of every phase with several blocks that reads it and did not make it.
      for (size_t p = 0; p < phase_first_.size(); ++p) {
        const bool reads_across = static_cast<int>(p) > v.birth_phase &&
                                  v.last >= phase_first_[p] && v.last < phase_last_[p];
        if (reads_across && plan_.phases[p].reduce) v.last = phase_last_[p];
      }
    }
  }

  void place_registers() {
    std::vector<int> order(values_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return values_[static_cast<size_t>(a)].first < values_[static_cast<size_t>(b)].first;
    });
    struct Slot {
      uint32_t offset, bytes;
      int free_at;  // position after which it may be taken again
    };
    std::vector<Slot> slots;
    uint32_t top = 0;
    for (int v : order) {
      Value& value = values_[static_cast<size_t>(v)];
      if (value.first < 0 && value.birth_phase >= 0) continue;  // no register holds it
      const auto bytes = static_cast<uint32_t>(
          (lanes_of(value.shape) * value.bytes + kAlignment - 1) / kAlignment * kAlignment);
      auto slot = std::find_if(slots.begin(), slots.end(), [&](const Slot& s) {
        return s.bytes == bytes &&
               (s.free_at < value.first || (s.free_at == value.first && value.in_place));
      });
      if (slot == slots.end()) {
        slots.push_back({top, bytes, 0});
        top += bytes;
        slot = slots.end() - 1;
      }
      slot->free_at = value.last;
      value.offset = slot->offset;
    }
    plan_.arena_bytes = top;
    auto place = [&](Operand& o) { o.offset = values_[o.offset].offset; };
    for (PhasePlan& phase : plan_.phases) {
      for (Step& s : phase.steps) {
        visit_operands(s, [&](Operand& o, bool) { place(o); });
        if (s.kind == Step::Kind::kReduce) {
          s.acc = values_[s.acc].offset;
          s.aux = values_[s.aux].offset;
          phase.reductions.push_back(s);
        }
      }
    }
    for (Constant& c : plan_.constants) c.offset = values_[c.offset].offset;
    plan_.any_rows = std::none_of(values_.begin(), values_.end(), [](const Value& v) {
      return v.first >= 0 && (v.shape & kRows) != 0;
    });
    plan_.scale.code = kernels().fused_code(FusedKind::kMap, From::kEach, Op::mul);
    if (plan_.keeps_product) {
      plan_.product = operand(product_);
      place(plan_.product);
    }
  }

  void estimate() {
    double total = 0;
    for (const PhasePlan& phase : plan_.phases) {
      double per_block = 0;
      for (const Step& s : phase.steps) {
        const auto lanes = static_cast<double>(lanes_of(s.dst.shape | s.args[0].shape));
        per_block += 8 + lane_cost(s) * lanes * (s.indexed || s.masked ? 10 : 1);
      }
      total += per_block * static_cast<double>(plan_.units) *
               static_cast<double>(phase.reduce ? plan_.reduce_steps : 1);
    }
    if (stage_.schedule == Schedule::kMatmul) {
      double multiplications = 1;
      for (const program::BoundLoop& loop : stage_.loops)
        multiplications *= static_cast<double>(loop.extent);
      total += multiplications * 0.02 + 1000;
    }
    plan_.cost_ns = total;
  }

  const BoundProgram& program_;
  const BoundStage& stage_;
  StagePlan plan_;
  std::vector<Step>* steps_ = nullptr;
  std::vector<Value> values_;
  std::vector<int> value_of_;
  std::map<std::vector<int64_t>, int> known_;
  std::vector<int> phase_first_, phase_last_;
  size_t phase_ = 0;
  bool reduce_ = false;
  int64_t epoch_ = 0;
  int product_ = -1;
};

}  // namespace

StagePlan plan_stage(const BoundProgram& program, const BoundStage& stage) {
  return Planner(program, stage).run();
}

}  // namespace spyre::softdev
