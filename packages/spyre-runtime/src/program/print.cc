// SPDX-License-Identifier: Apache-2.0
// Text of programs: the portable form, which parse() reads back, and a readable form of bound ones.
#include <cmath>
#include <cstdio>
#include <sstream>

#include "program/bound.h"
#include "spyre/program/link.h"

namespace spyre::program {
namespace {

using Symbols = std::vector<std::string>;

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

template <class T, class F>
std::string list(const std::vector<T>& values, F text) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + text(values[i]);
  return out + "]";
}

std::string list(const std::vector<Expr>& values, const Symbols& symbols) {
  return list(values, [&](const Expr& e) { return e.str(symbols); });
}

std::string list(const std::vector<int64_t>& values) {
  return list(values, [](int64_t v) { return std::to_string(v); });
}

std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

std::string reg(int number) { return std::string("%").append(std::to_string(number)); }

std::string instruction(const Instr& in, const Symbols& symbols) {
  std::string out = in.dst >= 0 ? reg(in.dst) + " = " : "";
  out += op_info(in.op).name;
  if (in.access >= 0) out.append(" a").append(std::to_string(in.access));
  if (in.index >= 0) out.append(" [").append(reg(in.index)).append("]");
  for (int i = 0; i < op_info(in.op).arity; ++i) out.append(" ").append(reg(in.args[i]));
  if (in.op == Op::const_f) out.append(" ").append(number(in.fimm));
  if (in.op == Op::const_i || in.op == Op::iota || in.op == Op::index_check) {
    out.append(" ").append(in.iimm.str(symbols));
  }
  if (in.op == Op::index_check && in.wrap) out += " wrap";
  if (in.predicate >= 0) out.append(" if ").append(reg(in.predicate));
  return out;
}

const char* kind_name(BufferKind kind) {
  return kind == BufferKind::kArg ? "arg" : kind == BufferKind::kTemp ? "temp" : "lx";
}

void print_phases(std::ostream& out, const std::vector<Phase>& phases, const Symbols& symbols) {
  for (const Phase& phase : phases) {
    out << "  phase" << (phase.reduce ? " reduce" : "") << "\n";
    for (const Instr& in : phase.body) out << "    " << instruction(in, symbols) << "\n";
  }
}

}  // namespace

std::string print(const Program& program) {
  std::ostringstream out;
  out << "spyre.program " << kProgramVersion << "\nname " << quote(program.name) << "\n";
  for (const std::string& symbol : program.symbols) out << "symbol " << symbol << "\n";
  for (const Buffer& b : program.buffers) {
    out << "buffer " << b.name << " " << kind_name(b.kind) << " "
        << layout::host_dtype_name(b.dtype) << " size " << list(b.size, program.symbols)
        << " stride " << list(b.stride, program.symbols) << "\n";
  }
  for (const Stage& stage : program.stages) {
    out << "stage " << quote(stage.name) << "\n";
    for (const Loop& loop : stage.loops) {
      out << "  loop " << loop.extent.str(program.symbols) << (loop.reduce ? " reduce" : "");
      if (loop.parts > 0) out << " parts " << loop.parts;
      out << "\n";
    }
    for (size_t i = 0; i < stage.accesses.size(); ++i) {
      const Access& a = stage.accesses[i];
      out << "  access a" << i << " " << program.buffers.at(static_cast<size_t>(a.buffer)).name
          << " stride " << list(a.stride, program.symbols) << " offset "
          << a.offset.str(program.symbols) << "\n";
    }
    print_phases(out, stage.phases, program.symbols);
  }
  return out.str();
}

std::string print(const BoundProgram& program) {
  std::ostringstream out;
  out << "spyre.bound " << kProgramVersion << "\nname " << quote(program.name) << "\ncores "
      << program.cores << "\n";
  for (const BoundBuffer& b : program.buffers) {
    out << "buffer " << b.name << " " << kind_name(b.kind) << " "
        << layout::host_dtype_name(b.dtype) << " as " << layout::format_info(b.format).name
        << " bytes " << b.bytes << "\n";
  }
  for (const BoundStage& stage : program.stages) {
    out << "stage " << quote(stage.name) << " " << schedule_name(stage.schedule);
    if (stage.lane_loop >= 0) out << " lanes loop " << stage.lane_loop << " x" << stage.block_lanes;
    if (stage.row_loop >= 0) out << " rows loop " << stage.row_loop << " x" << stage.block_rows;
    if (stage.serial) out << " serial";
    out << "\n";
    for (const BoundLoop& loop : stage.loops)
      out << "  loop " << loop.extent << (loop.reduce ? " reduce" : "") << "\n";
    for (size_t i = 0; i < stage.accesses.size(); ++i) {
      const BoundAccess& a = stage.accesses[i];
      out << "  access a" << i << " "
          << (a.buffer < 0 ? "index" : program.buffers.at(static_cast<size_t>(a.buffer)).name)
          << (a.indexed ? " indexed" : "") << " stride " << list(a.stride) << " offset " << a.offset
          << "\n";
      for (const layout::Digit& d : a.digits) {
        out << "    digit // " << d.divisor << " * " << d.device_stride << "\n";
      }
    }
    print_phases(out, stage.phases, {});
  }
  return out.str();
}

}  // namespace spyre::program
