// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/builder.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace spyre::aten {

using program::Access;
using program::Expr;
using program::HostDtype;
using program::Instr;

namespace {

std::vector<Expr> exprs(const std::vector<int64_t>& values) {
  return std::vector<Expr>(values.begin(), values.end());
}

/// float -> integer of a dtype, saturating.
Op float_to_int(HostDtype dtype) {
  switch (dtype) {
    case HostDtype::kInt8: return Op::f2i_i8;
    case HostDtype::kInt16: return Op::f2i_i16;
    case HostDtype::kInt32: return Op::f2i_i32;
    case HostDtype::kUInt8: return Op::f2i_u8;
    default: return Op::f2i_i64;
  }
}

bool is_half(HostDtype dtype) {
  return dtype == HostDtype::kFloat16 || dtype == HostDtype::kBFloat16;
}

constexpr double kSen169Largest = 8573157376.0;

/// Whether a half surely holds the result of an instruction. `known`: by register.
bool is_in_range(const Instr& instr, const program::Program& program, const program::Stage& stage,
                 const std::vector<bool>& known) {
  switch (instr.op) {
    case Op::load: return is_half(program.buffers[stage.accesses[instr.access].buffer].dtype);
    case Op::const_f: return std::abs(instr.fimm) <= kSen169Largest;
    case Op::inf_to_sen169:
    case Op::round_sen169:
    case Op::sigmoid:
    case Op::tanh:
    case Op::sin:
    case Op::cos:
    case Op::erf:
    case Op::erfc:
    case Op::sign:
    case Op::b2f: return true;
    case Op::where: return known[instr.args[1]] && known[instr.args[2]];
    case Op::maximum:
    case Op::minimum:
    case Op::fmax:
    case Op::fmin: return known[instr.args[0]] && known[instr.args[1]];
    case Op::neg:
    case Op::abs:
    case Op::relu:
    case Op::copysign:
    case Op::reduce_max:
    case Op::reduce_min: return known[instr.args[0]];
    default: return false;
  }
}

/// Makes what a half may not hold infinite where it is stored; a bare store would give NaN.
void keep_infinities(const program::Program& program, program::Stage& stage, int& registers) {
  std::vector<bool> known(registers, false);
  for (program::Phase& phase : stage.phases) {
    std::vector<Instr> body;
    for (Instr& instr : phase.body) {
      if (instr.dst >= 0) known[instr.dst] = is_in_range(instr, program, stage, known);
      const bool overflows = instr.op == Op::store && !known[instr.args[0]] &&
                             is_half(program.buffers[stage.accesses[instr.access].buffer].dtype);
      if (overflows) {
        Instr infinite;
        infinite.op = Op::inf_to_sen169;
        infinite.dst = registers++;
        infinite.args[0] = instr.args[0];
        instr.args[0] = infinite.dst;
        known.push_back(true);
        body.push_back(std::move(infinite));
      }
      body.push_back(std::move(instr));
    }
    phase.body = std::move(body);
  }
}

bool has_effect(const Instr& instr) {
  return instr.op == Op::store || instr.op == Op::store_add || instr.op == Op::index_check;
}

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

int StageBuilder::loop(int64_t extent, bool reduce) {
  program::Loop loop;
  loop.extent = extent;
  loop.reduce = reduce;
  stage_.loops.push_back(std::move(loop));
  return static_cast<int>(stage_.loops.size()) - 1;
}

int StageBuilder::access(int buffer, std::vector<int64_t> stride, int64_t offset) {
  Access access;
  access.buffer = buffer;
  access.stride = exprs(stride);
  access.offset = offset;
  stage_.accesses.push_back(std::move(access));
  return static_cast<int>(stage_.accesses.size()) - 1;
}

void StageBuilder::phase(bool reduce) {
  stage_.phases.emplace_back();
  stage_.phases.back().reduce = reduce;
}

Instr& StageBuilder::append(Op op, int dst) {
  if (stage_.phases.empty()) phase();
  Instr instr;
  instr.op = op;
  instr.dst = dst;
  auto& body = stage_.phases.back().body;
  body.push_back(std::move(instr));
  return body.back();
}

HostDtype StageBuilder::dtype_of(int access) const {
  return program_.buffers[stage_.accesses[access].buffer].dtype;
}

Value StageBuilder::load(int access, std::optional<Value> index, std::optional<Value> predicate) {
  Value result{this, next_register_++, register_type(dtype_of(access)), {}};
  Instr& instr = append(Op::load, result.reg);
  instr.access = access;
  if (index) instr.index = index->reg;
  if (predicate) instr.predicate = predicate->reg;
  return result;
}

void StageBuilder::append_store(Op op, int access, Value value, std::optional<Value> index,
                                std::optional<Value> predicate) {
  const HostDtype dtype = dtype_of(access);
  value = convert(value, register_type(dtype), dtype);
  Instr& instr = append(op, -1);
  instr.args[0] = value.reg;
  instr.access = access;
  if (index) instr.index = index->reg;
  if (predicate) instr.predicate = predicate->reg;
}

void StageBuilder::store(int access, Value value, std::optional<Value> index,
                         std::optional<Value> predicate) {
  append_store(Op::store, access, value, index, predicate);
}

void StageBuilder::store_add(int access, Value value, std::optional<Value> index,
                             std::optional<Value> predicate) {
  append_store(Op::store_add, access, value, index, predicate);
}

Value StageBuilder::constant_f(double value) {
  Value result{this, next_register_++, Type::F, value};
  append(Op::const_f, result.reg).fimm = value;
  return result;
}

Value StageBuilder::constant_i(int64_t value) {
  Value result{this, next_register_++, Type::I, {}};
  // A double does not hold every int64; only the small ones matter for folding.
  if (value > -(int64_t{1} << 52) && value < (int64_t{1} << 52)) {
    result.constant = static_cast<double>(value);
  }
  append(Op::const_i, result.reg).iimm = value;
  return result;
}

Value StageBuilder::iota(int loop) {
  Value result{this, next_register_++, Type::I, {}};
  append(Op::iota, result.reg).iimm = loop;
  return result;
}

Value StageBuilder::index_check(Value index, int64_t size) {
  Value result{this, next_register_++, Type::I, {}};
  Instr& instr = append(Op::index_check, result.reg);
  instr.args[0] = index.reg;
  instr.iimm = size;
  return result;
}

Value StageBuilder::emit(Op op, std::initializer_list<Value> args) {
  const program::OpInfo& info = program::op_info(op);
  TORCH_INTERNAL_ASSERT(args.size() == info.arity, "op ", info.name, " takes ", int{info.arity},
                        " values, got ", args.size());
  int regs[4] = {-1, -1, -1, -1};
  int count = 0;
  for (const Value& arg : args) {
    regs[count] = convert(arg, info.args[count]).reg;
    ++count;
  }
  Value result{this, next_register_++, info.result, {}};
  Instr& instr = append(op, result.reg);
  std::copy(std::begin(regs), std::end(regs), std::begin(instr.args));
  return result;
}

Value StageBuilder::convert(Value value, Type to, HostDtype dtype) {
  if (value.type == to || to == Type::N) return value;
  if (value.constant && to == Type::F) return constant_f(*value.constant);
  switch (to) {
    case Type::F: return emit(value.type == Type::I ? Op::i2f : Op::b2f, {value});
    case Type::I: return emit(value.type == Type::F ? float_to_int(dtype) : Op::b2i, {value});
    default: return emit(value.type == Type::F ? Op::f2b : Op::i2b, {value});
  }
}

program::Stage StageBuilder::finish() {
  std::vector<char> used(next_register_, 0);
  for (auto phase = stage_.phases.rbegin(); phase != stage_.phases.rend(); ++phase) {
    auto& body = phase->body;
    std::vector<Instr> kept;
    for (auto instr = body.rbegin(); instr != body.rend(); ++instr) {
      if (!has_effect(*instr) && !used[instr->dst]) continue;
      for (int arg : instr->args) {
        if (arg >= 0) used[arg] = 1;
      }
      if (instr->index >= 0) used[instr->index] = 1;
      if (instr->predicate >= 0) used[instr->predicate] = 1;
      kept.push_back(std::move(*instr));
    }
    std::reverse(kept.begin(), kept.end());
    body = std::move(kept);
  }
  keep_infinities(program_, stage_, next_register_);
  std::vector<int> number(next_register_, -1);
  int next = 0;
  auto renamed = [&](int reg) { return reg < 0 ? reg : number[reg]; };
  for (auto& phase : stage_.phases) {
    for (Instr& instr : phase.body) {
      for (int& arg : instr.args) arg = renamed(arg);
      instr.index = renamed(instr.index);
      instr.predicate = renamed(instr.predicate);
      if (instr.dst >= 0) instr.dst = number[instr.dst] = next++;
    }
  }
  std::erase_if(stage_.phases, [](const program::Phase& phase) { return phase.body.empty(); });
  // Accesses that only dead loads used.
  std::vector<int> access_number(stage_.accesses.size(), -1);
  std::vector<Access> accesses;
  for (auto& phase : stage_.phases) {
    for (Instr& instr : phase.body) {
      if (instr.access < 0) continue;
      int& to = access_number[instr.access];
      if (to < 0) {
        to = static_cast<int>(accesses.size());
        accesses.push_back(std::move(stage_.accesses[instr.access]));
      }
      instr.access = to;
    }
  }
  stage_.accesses = std::move(accesses);
  return std::move(stage_);
}

int ProgramBuilder::buffer(program::BufferKind kind, HostDtype dtype,
                           const std::vector<int64_t>& size, const std::vector<int64_t>& stride) {
  program::Buffer buffer;
  buffer.name = "b" + std::to_string(program_.buffers.size());
  buffer.kind = kind;
  buffer.dtype = dtype;
  buffer.size = exprs(size);
  buffer.stride = exprs(stride);
  program_.buffers.push_back(std::move(buffer));
  return static_cast<int>(program_.buffers.size()) - 1;
}

int ProgramBuilder::arg(HostDtype dtype, const std::vector<int64_t>& size,
                        const std::vector<int64_t>& stride) {
  return buffer(program::BufferKind::kArg, dtype, size, stride);
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& size) {
  std::vector<int64_t> strides(size.size(), 1);
  for (size_t i = size.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<int64_t>(size[i], 1);
  }
  return strides;
}

int ProgramBuilder::temp(HostDtype dtype, const std::vector<int64_t>& size) {
  return buffer(program::BufferKind::kTemp, dtype, size, dense_strides(size));
}

StageBuilder& ProgramBuilder::stage(std::string name) {
  stages_.emplace_back(program_);
  stages_.back().set_name(std::move(name));
  return stages_.back();
}

program::Program ProgramBuilder::finish() {
  for (StageBuilder& stage : stages_) program_.stages.push_back(stage.finish());
  return std::move(program_);
}

}  // namespace spyre::aten
