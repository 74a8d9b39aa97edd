// SPDX-License-Identifier: Apache-2.0
#include "spyre/program/expr.h"

#include <algorithm>
#include <limits>

namespace spyre::program {
namespace {

int64_t apply(Expr::Kind kind, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (kind) {
    case Expr::Kind::kAdd: return static_cast<int64_t>(ua + ub);
    case Expr::Kind::kSub: return static_cast<int64_t>(ua - ub);
    case Expr::Kind::kMul: return static_cast<int64_t>(ua * ub);
    case Expr::Kind::kFloorDiv:
      if (b == 0) return 0;
      if (b == -1) return static_cast<int64_t>(0 - ua);
      return a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
    case Expr::Kind::kMod:
      if (b == 0 || b == -1) return 0;
      return a % b + ((a % b != 0 && (a % b < 0) != (b < 0)) ? b : 0);
    case Expr::Kind::kMin: return std::min(a, b);
    case Expr::Kind::kMax: return std::max(a, b);
    default: return 0;
  }
}

}  // namespace

Expr Expr::symbol(int index) {
  Expr e;
  e.node_ = std::make_shared<const Node>(Node{Kind::kSymbol, index, {}, {}});
  return e;
}

Expr Expr::binary(Kind kind, const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return Expr(apply(kind, a.value_, b.value_));
  Expr e;
  e.node_ = std::make_shared<const Node>(Node{kind, 0, a, b});
  return e;
}

int64_t Expr::evaluate(const std::vector<int64_t>& symbols) const {
  if (!node_) return value_;
  if (node_->kind == Kind::kSymbol) return symbols.at(static_cast<size_t>(node_->value));
  return apply(node_->kind, node_->left.evaluate(symbols), node_->right.evaluate(symbols));
}

int Expr::symbol_count() const {
  if (!node_) return 0;
  if (node_->kind == Kind::kSymbol) return static_cast<int>(node_->value) + 1;
  return std::max(node_->left.symbol_count(), node_->right.symbol_count());
}

std::string Expr::str(const std::vector<std::string>& symbols) const {
  switch (kind()) {
    case Kind::kConstant: return std::to_string(value_);
    case Kind::kSymbol: return symbols.at(static_cast<size_t>(node_->value));
    case Kind::kMin:
    case Kind::kMax:
      return (kind() == Kind::kMin ? "min(" : "max(") + left().str(symbols) + ", " +
             right().str(symbols) + ")";
    default: break;
  }
  static constexpr const char* kText[] = {"", "", " + ", " - ", " * ", " // ", " % "};
  return "(" + left().str(symbols) + kText[static_cast<int>(kind())] + right().str(symbols) + ")";
}

bool Expr::operator==(const Expr& other) const {
  if (node_ == other.node_) return value_ == other.value_;
  if (!node_ || !other.node_ || node_->kind != other.node_->kind) return false;
  return node_->value == other.node_->value && node_->left == other.node_->left &&
         node_->right == other.node_->right;
}

}  // namespace spyre::program
