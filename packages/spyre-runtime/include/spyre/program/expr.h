// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spyre::program {

/// An integer expression over a program's symbols. Almost every one is a plain constant, which
/// costs no allocation; the others share immutable nodes. Division and remainder floor; dividing by
/// zero gives 0, so that evaluation never traps. Arithmetic wraps.
class Expr {
 public:
  enum class Kind : uint8_t { kConstant, kSymbol, kAdd, kSub, kMul, kFloorDiv, kMod, kMin, kMax };

  Expr(int64_t value = 0) : value_(value) {}  // NOLINT: implicit, so that numbers are expressions
  /// The symbol with this position in Program::symbols.
  static Expr symbol(int index);
  /// An operator applied to two expressions, folded when both are constant.
  static Expr binary(Kind kind, const Expr& a, const Expr& b);

  Kind kind() const;
  bool is_constant() const { return !node_; }
  /// Value of a constant, index of a symbol.
  int64_t value() const;
  /// Operands; only for operators.
  const Expr& left() const;
  const Expr& right() const;

  int64_t evaluate(const std::vector<int64_t>& symbols) const;
  /// 1 + the largest symbol index used, 0 if none is.
  int symbol_count() const;
  /// Text form, with symbol names; parses back to an equal expression.
  std::string str(const std::vector<std::string>& symbols) const;

  bool operator==(const Expr& other) const;

 private:
  struct Node;
  int64_t value_ = 0;
  std::shared_ptr<const Node> node_;
};

struct Expr::Node {
  Kind kind;
  int64_t value;
  Expr left, right;
};

inline Expr::Kind Expr::kind() const { return node_ ? node_->kind : Kind::kConstant; }
inline int64_t Expr::value() const { return node_ ? node_->value : value_; }
inline const Expr& Expr::left() const { return node_->left; }
inline const Expr& Expr::right() const { return node_->right; }

inline Expr operator+(const Expr& a, const Expr& b) { return Expr::binary(Expr::Kind::kAdd, a, b); }
inline Expr operator-(const Expr& a, const Expr& b) { return Expr::binary(Expr::Kind::kSub, a, b); }
inline Expr operator*(const Expr& a, const Expr& b) { return Expr::binary(Expr::Kind::kMul, a, b); }
inline Expr floordiv(const Expr& a, const Expr& b) {
  return Expr::binary(Expr::Kind::kFloorDiv, a, b);
}
inline Expr operator%(const Expr& a, const Expr& b) { return Expr::binary(Expr::Kind::kMod, a, b); }
inline Expr min(const Expr& a, const Expr& b) { return Expr::binary(Expr::Kind::kMin, a, b); }
inline Expr max(const Expr& a, const Expr& b) { return Expr::binary(Expr::Kind::kMax, a, b); }

}  // namespace spyre::program
