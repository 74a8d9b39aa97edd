// SPDX-License-Identifier: Apache-2.0
#include "program/check.h"

#include <algorithm>
#include <stdexcept>

namespace spyre::program {
namespace {

const char* type_name(Type type) {
  static constexpr const char* kNames[] = {"none", "F", "I", "B"};
  return kNames[static_cast<int>(type)];
}

class PhaseChecker {
 public:
  PhaseChecker(int access_count, const std::function<Type(int)>& access_type,
               const std::string& where)
      : access_count_(access_count), access_type_(access_type), where_(where) {}

  std::vector<Type> run(const std::vector<Phase>& phases) {
    for (size_t p = 0; p < phases.size(); ++p) {
      phase_ = static_cast<int>(p);
      for (const Instr& in : phases[p].body) instruction(in, phases[p].reduce);
      check_dot(phases, p);
      // What a reduce phase computes per iteration dies with it; its reductions become visible.
      for (const Instr& in : phases[p].body) {
        if (in.dst >= 0)
          visible_[static_cast<size_t>(in.dst)] = !phases[p].reduce || is_reduction(in.op);
      }
    }
    return std::move(types_);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw std::invalid_argument(where_ + ", phase " + std::to_string(phase_) + ": " + reason);
  }

  void operand(const Instr& in, int reg, Type expected, const char* what) {
    if (reg < 0 || static_cast<size_t>(reg) >= types_.size() ||
        types_[static_cast<size_t>(reg)] == Type::N) {
      fail(std::string(what) + " of " + std::string(op_info(in.op).name) + " is %" +
           std::to_string(reg) + ", which is not defined before");
    }
    if (!visible_[static_cast<size_t>(reg)]) {
      fail("%" + std::to_string(reg) + " is used by " + std::string(op_info(in.op).name) +
           " where it has no value: a register of a reduce phase ends with the phase, a reduction "
           "begins after it");
    }
    if (types_[static_cast<size_t>(reg)] != expected) {
      fail(std::string(what) + " of " + std::string(op_info(in.op).name) + " has type " +
           type_name(types_[static_cast<size_t>(reg)]) + ", expected " + type_name(expected));
    }
  }

  void instruction(const Instr& in, bool reduce) {
    if (in.op >= Op::count_) fail("unknown op number " + std::to_string(static_cast<int>(in.op)));
    const OpInfo& info = op_info(in.op);
    Type result = info.result;
    if (has_access(in.op)) {
      if (in.access < 0 || in.access >= access_count_) {
        fail(std::string(info.name) + " names access " + std::to_string(in.access) + " of " +
             std::to_string(access_count_));
      }
      const Type type = access_type_(in.access);
      if (type == Type::N)
        fail(std::string(info.name) + " names an access that is not of a buffer");
      if (is_store(in.op))
        operand(in, in.args[0], type, "the value");
      else
        result = type;
      if (in.op == Op::store_add && type == Type::B) fail("store_add into a bool buffer");
      if (in.index >= 0) operand(in, in.index, Type::I, "the index");
    } else {
      for (int i = 0; i < info.arity; ++i) operand(in, in.args[i], info.args[i], "an operand");
    }
    if (in.predicate >= 0) {
      if (!has_access(in.op) && in.op != Op::index_check)
        fail("a predicate on " + std::string(info.name));
      operand(in, in.predicate, Type::B, "the predicate");
    }
    if (in.index >= 0 && !has_access(in.op)) fail("an index on " + std::string(info.name));
    if (is_store(in.op) && in.dst >= 0) fail(std::string(info.name) + " has a result");
    if (is_reduction(in.op) && !reduce) fail(std::string(info.name) + " outside a reduce phase");
    if (is_store(in.op)) return;
    if (in.dst < 0 || in.dst >= kMaxRegisters) fail("result register %" + std::to_string(in.dst));
    const auto dst = static_cast<size_t>(in.dst);
    if (dst >= types_.size()) {
      types_.resize(dst + 1, Type::N);
      visible_.resize(dst + 1, false);
    }
    if (types_[dst] != Type::N) fail("%" + std::to_string(in.dst) + " is defined twice");
    types_[dst] = result;
    visible_[dst] = !is_reduction(in.op);
  }

  void check_dot(const std::vector<Phase>& phases, size_t p) const {
    const std::vector<Instr>& body = phases[p].body;
    const bool has_dot =
        std::any_of(body.begin(), body.end(), [](const Instr& in) { return in.op == Op::dot; });
    if (!has_dot) return;
    const bool plain =
        p == 0 && body.size() == 3 && body[0].op == Op::load && body[1].op == Op::load &&
        body[2].op == Op::dot && body[2].args[0] == body[0].dst && body[2].args[1] == body[1].dst &&
        std::all_of(body.begin(), body.end(),
                    [](const Instr& in) { return in.index < 0 && in.predicate < 0; });
    if (!plain)
      fail("a dot needs a first phase of exactly load, load, dot without index or predicate");
    for (size_t q = 1; q < phases.size(); ++q) {
      if (phases[q].reduce)
        fail("phase " + std::to_string(q) + " reduces after a dot; use another stage");
    }
  }

  int access_count_;
  const std::function<Type(int)>& access_type_;
  const std::string& where_;
  int phase_ = 0;
  std::vector<Type> types_;
  std::vector<char> visible_;
};

}  // namespace

Type register_type(HostDtype dtype) {
  switch (dtype) {
    case HostDtype::kBool: return Type::B;
    case HostDtype::kInt8:
    case HostDtype::kInt16:
    case HostDtype::kInt32:
    case HostDtype::kInt64:
    case HostDtype::kUInt8: return Type::I;
    default: return Type::F;
  }
}

std::vector<Type> check_phases(const std::vector<Phase>& phases, int access_count,
                               const std::function<Type(int)>& access_type,
                               const std::string& where) {
  return PhaseChecker(access_count, access_type, where).run(phases);
}

void check(const Program& program) {
  const auto symbols = static_cast<int>(program.symbols.size());
  auto fail = [&](const std::string& reason) {
    throw std::invalid_argument("program \"" + program.name + "\": " + reason);
  };
  auto known = [&](const Expr& e, const char* what) {
    if (e.symbol_count() > symbols) {
      fail(std::string(what) + " uses symbol number " + std::to_string(e.symbol_count() - 1) +
           " of " + std::to_string(symbols));
    }
  };
  for (const Buffer& b : program.buffers) {
    if (b.size.size() != b.stride.size()) {
      fail("buffer " + b.name + " has " + std::to_string(b.size.size()) + " sizes and " +
           std::to_string(b.stride.size()) + " strides");
    }
    for (const Expr& e : b.size) known(e, "a buffer size");
    for (const Expr& e : b.stride) known(e, "a buffer stride");
  }
  for (const Stage& stage : program.stages) {
    const std::string where = "program \"" + program.name + "\", stage \"" + stage.name + "\"";
    if (stage.loops.size() > kMaxLoops)
      fail("a stage has " + std::to_string(stage.loops.size()) + " loops");
    bool reduce = false;
    for (const Loop& loop : stage.loops) {
      if (reduce && !loop.reduce)
        fail("stage \"" + stage.name + "\" has a parallel loop inside a reduce loop");
      reduce = loop.reduce;
      known(loop.extent, "a loop extent");
      if (loop.parts < 0)
        fail("stage \"" + stage.name + "\" divides a loop in " + std::to_string(loop.parts) +
             " parts");
    }
    for (const Access& a : stage.accesses) {
      if (a.buffer < 0 || static_cast<size_t>(a.buffer) >= program.buffers.size()) {
        fail("an access names buffer " + std::to_string(a.buffer) + " of " +
             std::to_string(program.buffers.size()));
      }
      if (a.stride.size() != stage.loops.size()) {
        fail("stage \"" + stage.name + "\" has " + std::to_string(stage.loops.size()) +
             " loops but an access to " + program.buffers[static_cast<size_t>(a.buffer)].name +
             " has " + std::to_string(a.stride.size()) + " strides");
      }
      known(a.offset, "an access offset");
      for (const Expr& e : a.stride) known(e, "an access stride");
    }
    check_phases(
        stage.phases, static_cast<int>(stage.accesses.size()),
        [&](int access) {
          const Access& a = stage.accesses[static_cast<size_t>(access)];
          return register_type(program.buffers[static_cast<size_t>(a.buffer)].dtype);
        },
        where);
    for (const Phase& phase : stage.phases) {
      for (const Instr& in : phase.body) {
        known(in.iimm, "an instruction");
        if (in.op == Op::iota && (!in.iimm.is_constant() || in.iimm.value() < 0 ||
                                  in.iimm.value() >= static_cast<int64_t>(stage.loops.size()))) {
          fail("iota in stage \"" + stage.name + "\" names no loop of " +
               std::to_string(stage.loops.size()));
        }
      }
    }
  }
}

}  // namespace spyre::program
