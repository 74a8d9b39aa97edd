// SPDX-License-Identifier: Apache-2.0
#include "spyre/program/op_table.h"

#include <array>
#include <string>
#include <unordered_map>

namespace spyre::program {
namespace {

constexpr Type N = Type::N, F = Type::F, I = Type::I, B = Type::B;

constexpr std::array kTable = {// The type of what load gives and store takes is that of the buffer.
                               OpInfo{"load", N, 0, {N, N, N, N}},
                               OpInfo{"store", N, 1, {N, N, N, N}},
                               OpInfo{"store_add", N, 1, {N, N, N, N}},
                               OpInfo{"const_f", F, 0, {N, N, N, N}},
                               OpInfo{"const_i", I, 0, {N, N, N, N}},
                               OpInfo{"iota", I, 0, {N, N, N, N}},
                               OpInfo{"index_check", I, 1, {I, N, N, N}},
                               OpInfo{"f2i_i8", I, 1, {F, N, N, N}},
                               OpInfo{"f2i_i16", I, 1, {F, N, N, N}},
                               OpInfo{"f2i_i32", I, 1, {F, N, N, N}},
                               OpInfo{"f2i_i64", I, 1, {F, N, N, N}},
                               OpInfo{"f2i_u8", I, 1, {F, N, N, N}},
                               OpInfo{"i2f", F, 1, {I, N, N, N}},
                               OpInfo{"f2b", B, 1, {F, N, N, N}},
                               OpInfo{"i2b", B, 1, {I, N, N, N}},
                               OpInfo{"b2f", F, 1, {B, N, N, N}},
                               OpInfo{"b2i", I, 1, {B, N, N, N}},
                               OpInfo{"bits_f2i", I, 1, {F, N, N, N}},
                               OpInfo{"bits_i2f", F, 1, {I, N, N, N}},
                               OpInfo{"where", F, 3, {B, F, F, N}},
                               OpInfo{"where_i", I, 3, {B, I, I, N}},
                               OpInfo{"where_b", B, 3, {B, B, B, N}},
                               OpInfo{"not_b", B, 1, {B, N, N, N}},
                               OpInfo{"rand", F, 2, {I, I, N, N}},
                               OpInfo{"randn", F, 2, {I, I, N, N}},
                               OpInfo{"randint", I, 4, {I, I, I, I}},
                               OpInfo{"reduce_sum", F, 1, {F, N, N, N}},
                               OpInfo{"reduce_prod", F, 1, {F, N, N, N}},
                               OpInfo{"reduce_max", F, 1, {F, N, N, N}},
                               OpInfo{"reduce_min", F, 1, {F, N, N, N}},
                               OpInfo{"reduce_sum_i", I, 1, {I, N, N, N}},
                               OpInfo{"reduce_prod_i", I, 1, {I, N, N, N}},
                               OpInfo{"reduce_max_i", I, 1, {I, N, N, N}},
                               OpInfo{"reduce_min_i", I, 1, {I, N, N, N}},
                               OpInfo{"reduce_xor_i", I, 1, {I, N, N, N}},
                               OpInfo{"reduce_any", B, 1, {B, N, N, N}},
                               OpInfo{"reduce_all", B, 1, {B, N, N, N}},
                               OpInfo{"reduce_argmax", I, 1, {F, N, N, N}},
                               OpInfo{"reduce_argmin", I, 1, {F, N, N, N}},
                               OpInfo{"reduce_argmax_i", I, 1, {I, N, N, N}},
                               OpInfo{"reduce_argmin_i", I, 1, {I, N, N, N}},
                               OpInfo{"dot", F, 2, {F, F, N, N}},
#define X(name) OpInfo{#name, F, 1, {F, N, N, N}},
                               SPYRE_FLOAT_UNARY(X)
#undef X
#define X(name) OpInfo{#name, F, 2, {F, F, N, N}},
                                   SPYRE_FLOAT_BINARY(X)
#undef X
#define X(name) OpInfo{#name, F, 3, {F, F, F, N}},
                                       SPYRE_FLOAT_TERNARY(X)
#undef X
#define X(name) OpInfo{#name, B, 1, {F, N, N, N}},
                                           SPYRE_FLOAT_PREDICATE(X)
#undef X
#define X(name) OpInfo{#name, B, 2, {F, F, N, N}},
                                               SPYRE_COMPARE(X)
#undef X
#define X(name) OpInfo{#name, I, 1, {I, N, N, N}},
                                                   SPYRE_INT_UNARY(X)
#undef X
#define X(name) OpInfo{#name, I, 2, {I, I, N, N}},
                                                       SPYRE_INT_BINARY(X)
#undef X
#define X(name) OpInfo{#name, B, 2, {B, B, N, N}},
                                                           SPYRE_BOOL_BINARY(X)
#undef X
#define X(name) OpInfo{#name "_i", B, 2, {I, I, N, N}},
                                                               SPYRE_COMPARE(X)
#undef X
};

static_assert(kTable.size() == static_cast<size_t>(Op::count_), "one row per op, in enum order");

}  // namespace

const OpInfo& op_info(Op op) { return kTable[static_cast<size_t>(op)]; }

Op op_by_name(std::string_view name) {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, Op>;
    for (size_t i = 0; i < kTable.size(); ++i) map->emplace(kTable[i].name, static_cast<Op>(i));
    return map;
  }();
  auto it = index->find(name);
  return it == index->end() ? Op::count_ : it->second;
}

}  // namespace spyre::program
