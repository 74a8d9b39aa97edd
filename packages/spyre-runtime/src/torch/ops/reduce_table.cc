// SPDX-License-Identifier: Apache-2.0
// The reductions. To add one: a row here; reduce.h has the columns.
#include <cmath>

#include "torch/ops/reduce.h"

namespace spyre::aten {
namespace {

using R = const ReduceArgs&;
using Values = std::vector<Value>;
using Results = ReduceOp::Results;

/// The variant of a reduction for x's register type.
Value reduce(Op f, Op i, Op b, Value x) {
  if (x.type == Type::B && b == Op::count_) x = as_int(x);
  const Op op = x.type == Type::F ? f : x.type == Type::I ? i : b;
  return x.stage->emit(op, {x});
}
Value sum(Value x) { return reduce(Op::reduce_sum, Op::reduce_sum_i, Op::count_, x); }
Value largest(Value x) { return reduce(Op::reduce_max, Op::reduce_max_i, Op::reduce_any, x); }
Value smallest(Value x) { return reduce(Op::reduce_min, Op::reduce_min_i, Op::reduce_all, x); }
Value index_of_largest(Value x) {
  return reduce(Op::reduce_argmax, Op::reduce_argmax_i, Op::count_, x);
}
Value index_of_smallest(Value x) {
  return reduce(Op::reduce_argmin, Op::reduce_argmin_i, Op::count_, x);
}

Values total(R r) {
  const Value s = sum(r.load_with_infinities());
  r.finish();
  return {s};
}

Values product(R r) {
  const Value p = reduce(Op::reduce_prod, Op::reduce_prod_i, Op::count_, r.load_with_infinities());
  r.finish();
  return {p};
}

Values mean(R r) {
  const Value s = sum(r.load_with_infinities());
  r.finish();
  return {s / static_cast<double>(r.count)};
}

Values maximum_of(R r) {
  const Value m = largest(r.load());
  r.finish();
  return {m};
}

Values minimum_of(R r) {
  const Value m = smallest(r.load());
  r.finish();
  return {m};
}

Values extremes(R r) {
  const Value x = r.load();
  const Value low = smallest(x);
  const Value high = largest(x);
  r.finish();
  return {low, high};
}

Values argmax(R r) {
  const Value index = index_of_largest(r.load());
  r.finish();
  return {index};
}

Values argmin(R r) {
  const Value index = index_of_smallest(r.load());
  r.finish();
  return {index};
}

Values maximum_and_index(R r) {
  const Value x = r.load();
  const Value value = largest(x);
  const Value index = index_of_largest(x);
  r.finish();
  return {value, index};
}

Values minimum_and_index(R r) {
  const Value x = r.load();
  const Value value = smallest(x);
  const Value index = index_of_smallest(x);
  r.finish();
  return {value, index};
}

Values any(R r) {
  const Value x = r.stage.emit(Op::reduce_any, {r.load()});
  r.finish();
  return {x};
}

Values all(R r) {
  const Value x = r.stage.emit(Op::reduce_all, {r.load()});
  r.finish();
  return {x};
}

/// In two passes over the input: subtracting the mean first keeps what cancels exact.
Values variance_and_mean(R r) {
  const Value s = sum(r.load_with_infinities());
  r.finish();
  const Value mean = s / static_cast<double>(r.count);
  const Value difference = r.load_with_infinities() - mean;
  const Value squares = sum(difference * difference);
  r.finish();
  return {squares / (static_cast<double>(r.count) - r.number("correction", 1)), mean};
}

Values variance(R r) { return {variance_and_mean(r)[0]}; }
Values deviation(R r) { return {sqrt(variance_and_mean(r)[0])}; }
Values deviation_and_mean(R r) {
  const Values both = variance_and_mean(r);
  return {sqrt(both[0]), both[1]};
}

/// Taken off the largest element, so that nothing overflows. An infinite one is the result, but for
/// NaN beside it, which the maximum keeps.
Values log_sum_exp(R r) {
  const Value largest_of_all = largest(r.load_with_infinities());
  r.finish();
  const Value is_infinite = abs(largest_of_all) == INFINITY;
  const Value shift = where(is_infinite, 0, largest_of_all);
  const Value s = sum(exp(r.load_with_infinities() - shift));
  r.finish();
  return {where(is_infinite, largest_of_all, shift + log(s))};
}

/// With all dimensions for lack of any, PyTorch keeps them in a part of its computation and then
/// cannot add it, unless they are kept.
bool adds_up(const Call& call, int64_t) {
  return !call[1].toIntVector().empty() || call[2].toBool() || call.tensor(0).dim() == 0;
}

/// The CPU warns when a variance has no degrees of freedom.
bool has_freedom(const Call& call, int64_t count) {
  const int position = call.find("correction");
  const double correction = call.has(position) ? call[position].toScalar().toDouble() : 1;
  return static_cast<double>(count) - correction > 0;
}

Values vector_norm(R r) {
  const double order = r.number("ord", 2);
  const Value x = r.load_with_infinities();
  Value result;
  if (std::isinf(order)) {
    result = order > 0 ? largest(abs(x)) : smallest(abs(x));
  } else if (order == 0) {
    result = sum(as_float(x != 0));
  } else if (order == 1) {
    result = sum(abs(x));
  } else if (order == 2) {
    result = sum(x * x);
  } else {
    result = sum(pow(abs(x), like(x, order)));
  }
  r.finish();
  if (order == 2) result = sqrt(result);
  if (order != 0 && order != 1 && order != 2 && !std::isinf(order)) {
    result = pow(result, like(result, 1 / order));
  }
  return {result};
}

const std::vector<ReduceOp>& table() {
  static const std::vector<ReduceOp> rows = {
      {"sum", ReduceRule::kSum, "fi", total},
      {"sum.dim_IntList", ReduceRule::kSum, "fi", total},
      {"prod", ReduceRule::kSum, "fi", product},
      {"prod.dim_int", ReduceRule::kSum, "fi", product},
      {"mean", ReduceRule::kSame, "f", mean},
      {"mean.dim", ReduceRule::kSame, "f", mean},
      {"amax", ReduceRule::kSame, "fib", maximum_of},
      {"amin", ReduceRule::kSame, "fib", minimum_of},
      {"max", ReduceRule::kSame, "fib", maximum_of, Results::kOne, nullptr,
       /*refuses_overlap=*/true},
      {"min", ReduceRule::kSame, "fib", minimum_of, Results::kOne, nullptr,
       /*refuses_overlap=*/true},
      {"max.dim", ReduceRule::kSame, "fib", maximum_and_index, Results::kValueAndIndex, nullptr,
       /*refuses_overlap=*/true},
      {"min.dim", ReduceRule::kSame, "fib", minimum_and_index, Results::kValueAndIndex, nullptr,
       /*refuses_overlap=*/true},
      {"aminmax", ReduceRule::kSame, "fib", extremes, Results::kTwo, nullptr,
       /*refuses_overlap=*/true},
      {"argmax", ReduceRule::kSame, "fi", argmax, Results::kIndex},
      {"argmin", ReduceRule::kSame, "fi", argmin, Results::kIndex},
      {"any", ReduceRule::kTruth, "b", any, Results::kOne, nullptr, /*refuses_overlap=*/true},
      {"any.dim", ReduceRule::kTruth, "b", any, Results::kOne, nullptr, /*refuses_overlap=*/true},
      {"any.dims", ReduceRule::kTruth, "b", any, Results::kOne, nullptr, /*refuses_overlap=*/true},
      {"all", ReduceRule::kTruth, "b", all, Results::kOne, nullptr, /*refuses_overlap=*/true},
      {"all.dim", ReduceRule::kTruth, "b", all, Results::kOne, nullptr, /*refuses_overlap=*/true},
      {"all.dims", ReduceRule::kTruth, "b", all, Results::kOne, nullptr, /*refuses_overlap=*/true},
      {"var.correction", ReduceRule::kSame, "f", variance, Results::kOne, has_freedom},
      {"std.correction", ReduceRule::kSame, "f", deviation, Results::kOne, has_freedom},
      {"var_mean.correction", ReduceRule::kSame, "f", variance_and_mean, Results::kTwo,
       has_freedom},
      {"std_mean.correction", ReduceRule::kSame, "f", deviation_and_mean, Results::kTwo,
       has_freedom},
      {"logsumexp", ReduceRule::kSame, "f", log_sum_exp, Results::kOne, adds_up},
      {"linalg_vector_norm", ReduceRule::kSame, "f", vector_norm},
  };
  return rows;
}

}  // namespace

const std::vector<ReduceOp>& reduce_ops() { return table(); }

}  // namespace spyre::aten
