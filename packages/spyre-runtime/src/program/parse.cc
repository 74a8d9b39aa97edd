// SPDX-License-Identifier: Apache-2.0
// The text form of a portable program -> Program. docs/runtime/programs.md describes the form.
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <stdexcept>
#include <string_view>

#include "program/check.h"
#include "spyre/program/link.h"

namespace spyre::program {
namespace {

/// Nesting allowed in an expression: a bound on the recursion, far above what a compiler emits.
constexpr int kMaxExprDepth = 200;

/// Reads tokens of one line; every failure names the line.
class Line {
 public:
  Line(std::string_view text, int number) : text_(text), number_(number) {}

  [[noreturn]] void fail(const std::string& reason) const {
    throw std::invalid_argument("cannot parse program, line " + std::to_string(number_) + ": " +
                                reason);
  }

  bool at_end() {
    skip_space();
    return pos_ >= text_.size();
  }

  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(pos_, token.size()) != token) return false;
    // A word must not end in the middle of a longer one.
    if (is_word(token.back()) && pos_ + token.size() < text_.size() &&
        is_word(text_[pos_ + token.size()])) {
      return false;
    }
    pos_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail("expected '" + std::string(token) + "', found '" + rest() + "'");
  }

  std::string word(const char* what) {
    skip_space();
    size_t start = pos_;
    while (pos_ < text_.size() && is_word(text_[pos_])) ++pos_;
    if (start == pos_) fail(std::string("expected ") + what + ", found '" + rest() + "'");
    return std::string(text_.substr(start, pos_ - start));
  }

  std::string quoted() {
    skip_space();
    expect("\"");
    std::string out;
    while (pos_ < text_.size() && text_[pos_] != '"') {
      if (text_[pos_] == '\\' && pos_ + 1 < text_.size()) ++pos_;
      out += text_[pos_++];
    }
    if (pos_ >= text_.size()) fail("a quoted name has no closing quote");
    ++pos_;
    return out;
  }

  int64_t integer(const char* what) {
    skip_space();
    int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + pos_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail(std::string("expected ") + what + ", found '" + rest() + "'");
    pos_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  int index(const char* what) {
    int64_t value = integer(what);
    if (value < 0 || value > std::numeric_limits<int>::max()) {
      fail(std::string(what) + " is " + std::to_string(value) +
           ", expected a small non-negative number");
    }
    return static_cast<int>(value);
  }

  double number() {
    skip_space();
    std::string token;
    while (pos_ < text_.size() && !std::isspace(static_cast<unsigned char>(text_[pos_])) &&
           text_[pos_] != '#') {
      token += text_[pos_++];
    }
    char* end = nullptr;
    double value = std::strtod(token.c_str(), &end);
    if (token.empty() || *end != '\0') fail("expected a number, found '" + token + "'");
    return value;
  }

  Expr expr(const std::vector<std::string>& symbols) { return sum(symbols, 0); }

  std::vector<Expr> list(const std::vector<std::string>& symbols) {
    std::vector<Expr> out;
    expect("[");
    if (accept("]")) return out;
    do out.push_back(expr(symbols));
    while (accept(","));
    expect("]");
    return out;
  }

  void end() {
    if (!at_end()) fail("did not expect '" + rest() + "'");
  }

 private:
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  }

  void skip_space() {
    while (pos_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[pos_]))) ++pos_;
    if (pos_ < text_.size() && text_[pos_] == '#') pos_ = text_.size();
  }

  std::string rest() {
    skip_space();
    return std::string(text_.substr(pos_, 40));
  }

  Expr sum(const std::vector<std::string>& symbols, int depth) {
    Expr left = product(symbols, depth);
    while (true) {
      if (accept("+"))
        left = left + product(symbols, depth);
      else if (accept("-"))
        left = left - product(symbols, depth);
      else
        return left;
    }
  }

  Expr product(const std::vector<std::string>& symbols, int depth) {
    Expr left = factor(symbols, depth);
    while (true) {
      if (accept("*"))
        left = left * factor(symbols, depth);
      else if (accept("//"))
        left = floordiv(left, factor(symbols, depth));
      else if (accept("%"))
        left = left % factor(symbols, depth);
      else
        return left;
    }
  }

  Expr factor(const std::vector<std::string>& symbols, int depth) {
    if (depth > kMaxExprDepth)
      fail("an expression is nested more than " + std::to_string(kMaxExprDepth) + " deep");
    if (accept("(")) {
      Expr e = sum(symbols, depth + 1);
      expect(")");
      return e;
    }
    for (bool is_min : {true, false}) {
      if (!accept(is_min ? "min(" : "max(")) continue;
      Expr a = sum(symbols, depth + 1);
      expect(",");
      Expr b = sum(symbols, depth + 1);
      expect(")");
      return is_min ? min(a, b) : max(a, b);
    }
    skip_space();
    if (pos_ < text_.size() && text_[pos_] == '-' &&
        !(pos_ + 1 < text_.size() && std::isdigit(text_[pos_ + 1]))) {
      ++pos_;
      return Expr(0) - factor(symbols, depth + 1);
    }
    if (pos_ < text_.size() &&
        (std::isdigit(static_cast<unsigned char>(text_[pos_])) || text_[pos_] == '-')) {
      return Expr(integer("a number"));
    }
    std::string name = word("a number or a symbol");
    for (size_t i = 0; i < symbols.size(); ++i) {
      if (symbols[i] == name) return Expr::symbol(static_cast<int>(i));
    }
    fail("unknown symbol '" + name + "'");
  }

  std::string_view text_;
  int number_;
  size_t pos_ = 0;
};

class Parser {
 public:
  Program parse(std::string_view text) {
    int number = 0;
    for (size_t start = 0; start <= text.size();) {
      size_t end = std::min(text.find('\n', start), text.size());
      Line line(text.substr(start, end - start), ++number);
      if (!line.at_end()) {
        statement(line);
        line.end();
      }
      start = end + 1;
    }
    if (!seen_header_)
      throw std::invalid_argument("cannot parse program: it is empty, expected 'spyre.program 1'");
    check(program_);
    return std::move(program_);
  }

 private:
  void statement(Line& line) {
    if (!seen_header_) {
      line.expect("spyre.program");
      int version = line.index("a version");
      if (version != kProgramVersion) {
        line.fail("program version " + std::to_string(version) + ", expected " +
                  std::to_string(kProgramVersion));
      }
      seen_header_ = true;
    } else if (line.accept("name")) {
      program_.name = line.quoted();
    } else if (line.accept("symbol")) {
      program_.symbols.push_back(line.word("a symbol name"));
    } else if (line.accept("buffer")) {
      buffer(line);
    } else if (line.accept("stage")) {
      program_.stages.emplace_back().name = line.quoted();
      accesses_.clear();
    } else if (line.accept("loop")) {
      loop(line);
    } else if (line.accept("access")) {
      access(line);
    } else if (line.accept("phase")) {
      stage(line).phases.emplace_back().reduce = line.accept("reduce");
      if (stage(line).phases.size() == 1) registers_.clear();
    } else {
      instruction(line);
    }
  }

  Stage& stage(Line& line) {
    if (program_.stages.empty()) line.fail("expected a stage before this line");
    return program_.stages.back();
  }

  void buffer(Line& line) {
    Buffer b;
    b.name = line.word("a buffer name");
    if (!buffers_.emplace(b.name, static_cast<int>(program_.buffers.size())).second) {
      line.fail("buffer '" + b.name + "' is declared twice");
    }
    if (line.accept("arg"))
      b.kind = BufferKind::kArg;
    else if (line.accept("temp"))
      b.kind = BufferKind::kTemp;
    else if (line.accept("lx"))
      b.kind = BufferKind::kLx;
    else
      line.fail("expected arg, temp or lx after buffer '" + b.name + "'");
    std::string dtype = line.word("a dtype");
    try {
      b.dtype = layout::host_dtype_by_name(dtype);
    } catch (const std::exception& error) {
      line.fail(error.what());
    }
    line.expect("size");
    b.size = line.list(program_.symbols);
    line.expect("stride");
    b.stride = line.list(program_.symbols);
    program_.buffers.push_back(std::move(b));
  }

  void loop(Line& line) {
    Loop l;
    l.extent = line.expr(program_.symbols);
    l.reduce = line.accept("reduce");
    if (line.accept("parts")) l.parts = line.index("a number of parts");
    stage(line).loops.push_back(std::move(l));
  }

  void access(Line& line) {
    std::string name = line.word("an access name");
    if (!accesses_.emplace(name, static_cast<int>(stage(line).accesses.size())).second) {
      line.fail("access '" + name + "' is declared twice in this stage");
    }
    Access a;
    a.buffer = lookup(line, buffers_, line.word("a buffer name"), "buffer");
    line.expect("stride");
    a.stride = line.list(program_.symbols);
    line.expect("offset");
    a.offset = line.expr(program_.symbols);
    stage(line).accesses.push_back(std::move(a));
  }

  static int lookup(Line& line, const std::map<std::string, int>& names, const std::string& name,
                    const char* what) {
    auto it = names.find(name);
    if (it == names.end()) line.fail(std::string("unknown ") + what + " '" + name + "'");
    return it->second;
  }

  /// Register names are numbers of the writer's choice; they are renumbered densely.
  int use(Line& line) {
    line.expect("%");
    int name = line.index("a register number");
    auto it = registers_.find(name);
    if (it == registers_.end()) line.fail("register %" + std::to_string(name) + " is not defined");
    return it->second;
  }

  int define(Line& line, int name) {
    auto [it, fresh] = registers_.emplace(name, static_cast<int>(registers_.size()));
    if (!fresh) line.fail("register %" + std::to_string(name) + " is defined twice");
    return it->second;
  }

  void instruction(Line& line) {
    Stage& s = stage(line);
    if (s.phases.empty()) line.fail("expected a phase before this line");
    Instr in;
    int result = -1;
    if (line.accept("%")) {
      result = line.index("a register number");
      line.expect("=");
    }
    std::string name = line.word("an op");
    in.op = op_by_name(name);
    if (in.op == Op::count_) line.fail("unknown op '" + name + "'");
    const bool is_store = in.op == Op::store || in.op == Op::store_add;
    if (is_store != (result < 0))
      line.fail(is_store ? "'" + name + "' has no result" : "'" + name + "' needs a result");
    if (is_store || in.op == Op::load) {
      in.access = lookup(line, accesses_, line.word("an access name"), "access");
      if (line.accept("[")) {
        in.index = use(line);
        line.expect("]");
      }
    }
    for (int i = 0; i < op_info(in.op).arity; ++i) in.args[i] = use(line);
    if (in.op == Op::const_f) in.fimm = line.number();
    if (in.op == Op::const_i || in.op == Op::iota || in.op == Op::index_check)
      in.iimm = line.expr(program_.symbols);
    if (in.op == Op::index_check) in.wrap = line.accept("wrap");
    if (line.accept("if")) in.predicate = use(line);
    if (!is_store) in.dst = define(line, result);
    s.phases.back().body.push_back(std::move(in));
  }

  Program program_;
  bool seen_header_ = false;
  std::map<std::string, int> buffers_, accesses_;
  std::map<int, int> registers_;
};

}  // namespace

Program parse(const std::string& text) { return Parser().parse(text); }

}  // namespace spyre::program
