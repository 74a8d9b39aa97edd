// SPDX-License-Identifier: Apache-2.0
// Running sums and products along a dimension. The device has no scan, so log2(n) stages double the
// span that each element covers: y[i] = x[i] + x[i - 1], z[i] = y[i] + y[i - 2] and so on.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "torch/launch.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

/// What an element is while it is scanned: one register or several, a temporary for each.
using Parts = c10::SmallVector<Value, 2>;

/// A running sum or product in the accumulator that the CPU has for a dtype.
struct Rule {
  std::vector<ScalarType> parts;  ///< Undefined: what the result is computed in
  Parts (*take)(Value x);
  Parts (*combine)(const Parts& before, const Parts& x);
  Value (*give)(const Parts& parts);
  /// A power of two for each row that elements are multiplied with, so that no sum overflows.
  bool is_scaled = false;
};

// --- in one register
// ------------------------------------------------------------------------------

/// The CPU's sums begin at 0: there is no -0 among them.
Parts take_term(Value x) { return {x + 0.0}; }
Parts take_factor(Value x) { return {x}; }
Parts add(const Parts& a, const Parts& b) { return {a[0] + b[0]}; }
Parts multiply(const Parts& a, const Parts& b) { return {a[0] * b[0]}; }
Value give_one(const Parts& x) { return x[0]; }

// --- float32, which the CPU sums and multiplies in float64
// ----------------------------------------

Value is_finite(Value x) { return abs(x) <= std::numeric_limits<float>::max(); }

/// A sum as itself and what it was rounded by: 48 bits.
Parts take_exact_term(Value x) { return {x + 0.0, like(x, 0)}; }

Parts add_exactly(const Parts& a, const Parts& b) {
  const Value sum = a[0] + b[0], from_b = sum - a[0];
  const Value error = (a[0] - (sum - from_b)) + (b[0] - from_b);
  const Value low = a[1] + b[1] + error, high = sum + low;
  const Value is_sum = is_finite(sum);
  return {where(is_sum, high, sum), where(is_sum, low - (high - sum), 0)};
}

// A product as a number in +-[1, 2) and the exponent of two beside it.
constexpr int kFractionBits = 23, kExponentBias = 127;
constexpr double kExponentMask = 255;

Value power_of_two(Value exponent) {
  const Value bits = shift_left(exponent + kExponentBias, like(exponent, kFractionBits));
  return bits.stage->emit(Op::bits_i2f, {bits});
}

Parts take_exact_factor(Value x) {
  constexpr int kLift = 24;
  const Value is_normal = abs(x) >= std::numeric_limits<float>::min();
  const Value lifted = where(is_normal, x, x * std::exp2(kLift));
  const Value bits = x.stage->emit(Op::bits_f2i, {lifted});
  const Value fraction_bits = like(bits, kFractionBits);
  const Value field = shift_right(bits, fraction_bits) & like(bits, kExponentMask);
  const Value exponent = field - where(is_normal, like(bits, kExponentBias), kExponentBias + kLift);
  const Value keeps = is_finite(x) & (x != 0);
  const Value number =
      x.stage->emit(Op::bits_i2f, {bits - shift_left(field - kExponentBias, fraction_bits)});
  return {where(keeps, number, x), where(keeps, exponent, 0)};
}

Parts multiply_exactly(const Parts& a, const Parts& b) {
  const Value product = a[0] * b[0], exponent = a[1] + b[1];
  const Value is_large = abs(product) >= 2;
  return {where(is_large, product * 0.5, product), where(is_large, exponent + 1.0, exponent)};
}

Value give_exact_product(const Parts& parts) {
  // Two factors reach everything between zero and infinity; only the last one rounds.
  const auto within = [](Value x, double low, double high) {
    return minimum(maximum(x, like(x, low)), like(x, high));
  };
  const Value exponent = within(parts[1], -250, 250);
  const Value first = within(exponent, 1 - kExponentBias, kExponentBias);
  return parts[0] * power_of_two(first) * power_of_two(exponent - first);
}

const Rule kSum{{ScalarType::Undefined}, take_term, add, give_one};
const Rule kProduct{{ScalarType::Undefined}, take_factor, multiply, give_one};
const Rule kWideSum{{ScalarType::Float, ScalarType::Float},
                    take_exact_term,
                    add_exactly,
                    give_one,
                    /*is_scaled=*/true};
const Rule kWideProduct{
    {ScalarType::Float, ScalarType::Int}, take_exact_factor, multiply_exactly, give_exact_product};

// --- the stages
// -----------------------------------------------------------------------------------

/// A tensor of the program.
struct Place {
  int buffer;
  std::vector<int64_t> strides;
};

class Scan {
 public:
  Scan(ProgramBuilder& program, const Rule& rule, at::IntArrayRef size, int64_t dim,
       ScalarType from, ScalarType to)
      : program_(program), rule_(rule), size_(size.vec()), dim_(dim), from_(from), to_(to) {
    is_float_ = type_class(to) == 'f';
  }

  void run(const Place& input, const Place& result) {
    if (rule_.is_scaled) measure(input);
    input_ = &input;
    // Before the first step elements lie in the input, from then on in one set of temporaries or
    // the other, and after the last one in the result.
    std::array<std::vector<Place>, 2> sets;
    const std::vector<Place>* from = nullptr;
    int64_t distance = 1;
    for (size_t i = 0; distance * 2 < size_[dim_]; distance *= 2, ++i) {
      std::vector<Place>& to = sets[i % 2];
      if (to.empty()) {
        for (ScalarType dtype : rule_.parts) to.push_back(temporary(dtype, size_));
      }
      step(from, to, distance);
      from = &to;
    }
    step(from, {result}, distance, /*is_last=*/true);
  }

 private:
  Place temporary(ScalarType dtype, const std::vector<int64_t>& size) {
    // Integers wrap at the end, which comes to the same.
    if (dtype == ScalarType::Undefined) dtype = is_float_ ? ScalarType::Float : ScalarType::Long;
    return {program_.temp(host_dtype(dtype), size), dense_strides(size)};
  }

  /// to[i] = from[i] below `distance`, from[i] combined with from[i - distance] from there on.
  void step(const std::vector<Place>* from, const std::vector<Place>& to, int64_t distance,
            bool is_last = false) {
    stage(from, to, 0, std::min(distance, size_[dim_]), 0, is_last);
    if (distance < size_[dim_]) stage(from, to, distance, size_[dim_], distance, is_last);
  }

  void stage(const std::vector<Place>* from, const std::vector<Place>& to, int64_t begin,
             int64_t end, int64_t distance, bool is_last) {
    StageBuilder& stage = program_.stage("scan");
    for (int64_t d = 0; d < static_cast<int64_t>(size_.size()); ++d) {
      stage.loop(d == dim_ ? end - begin : size_[d]);
    }
    const auto scale = [&] { return stage.load(stage.access(scale_.buffer, scale_.strides)); };
    const auto load = [&](int64_t position) {
      const auto one = [&](const Place& place) {
        return stage.load(
            stage.access(place.buffer, place.strides, position * place.strides[dim_]));
      };
      Parts parts;
      if (from != nullptr) {
        for (const Place& part : *from) parts.push_back(one(part));
        return parts;
      }
      // Halves are summed in float32: rounded once, and with infinities that cancel to NaN.
      const Value x = cast(one(*input_), from_, is_float_ ? ScalarType::Float : ScalarType::Long);
      return rule_.take(rule_.is_scaled ? x * scale() : x);
    };
    Parts parts = load(begin);
    if (distance != 0) parts = rule_.combine(load(begin - distance), parts);
    if (is_last) {
      Value result = rule_.give(parts);
      if (rule_.is_scaled) result = result / scale();
      const ScalarType computed = is_float_ ? ScalarType::Float : ScalarType::Long;
      parts = {cast(result, computed, to_)};
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      stage.store(stage.access(to[i].buffer, to[i].strides, begin * to[i].strides[dim_]), parts[i]);
    }
  }

  /// A scale of 1, or where a row's sums could overflow, one as small as that takes: what it moves
  /// below the smallest number is as far below a row's largest as can be.
  void measure(const Place& input) {
    std::vector<int64_t> rows = size_;
    rows[dim_] = 1;
    scale_ = temporary(ScalarType::Float, rows);
    scale_.strides[dim_] = 0;
    StageBuilder& stage = program_.stage("scale");
    std::vector<int64_t> strides = input.strides, to = scale_.strides;
    for (int64_t extent : rows) stage.loop(extent);
    stage.loop(size_[dim_], /*reduce=*/true);
    strides.push_back(strides[dim_]);
    strides[dim_] = 0;
    to.push_back(0);
    stage.phase(/*reduce=*/true);
    const Value x = cast(stage.load(stage.access(input.buffer, strides)), from_, ScalarType::Float);
    const Value largest = stage.emit(Op::reduce_max, {where(is_finite(x), abs(x), 0)});
    stage.phase();
    const int bits = std::bit_width(static_cast<uint64_t>(size_[dim_]));
    const Value scale = where(largest >= std::exp2(127 - bits), stage.constant_f(std::exp2(-bits)),
                              stage.constant_f(1));
    stage.store(stage.access(scale_.buffer, to), scale);
  }

  ProgramBuilder& program_;
  const Rule& rule_;
  std::vector<int64_t> size_;
  int64_t dim_;
  ScalarType from_, to_;
  bool is_float_ = false;
  const Place* input_ = nullptr;
  Place scale_;
};

// --- the operators
// --------------------------------------------------------------------------------

/// `narrow` for integers and halves, `wide` for float32.
template <const Rule& narrow, const Rule& wide>
bool scan(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_spyre(self) || type_class(self.scalar_type()) == 0 || self.dim() == 0) return false;
  const int64_t dim = at::maybe_wrap_dim(call[1].toInt(), self.dim());
  at::Tensor out = call.output();
  ScalarType result = self.scalar_type();
  if (call.has(2)) {
    result = call[2].toScalarType();
  } else if (call.signature().has_out) {
    result = out.scalar_type();
  } else if (c10::isIntegralType(result, /*includeBool=*/true) && !out.defined()) {
    result = ScalarType::Long;
  }
  const char type = type_class(result);
  // The CPU rounds to a narrower dtype before it sums.
  const bool is_wide_enough = result == self.scalar_type() || result == ScalarType::Float ||
                              (type == 'i' && type_class(self.scalar_type()) != 'f');
  if (type == 0 || type == 'b' || !is_wide_enough) return false;
  if (out.defined()) {
    if (out.scalar_type() != result || out.device() != self.device()) return false;
    resize_out(out, self.sizes());
    at::assert_no_partial_overlap(out, self);
  } else {
    out = empty(self.sizes(), result, self.device());
  }
  if (out.numel() != 0) {
    static const char kTag = 0;
    ProgramKey key(&kTag);
    key.add(dim);
    key.add(static_cast<int64_t>(result) << 8 | static_cast<int64_t>(self.scalar_type()));
    key.add(self.sizes());
    key.add(self.strides());
    key.add(out.strides());
    auto build = [&] {
      ProgramBuilder program(call.signature().name);
      const Place to{declare_arg(program, out), to_vector(out.strides())};
      const Place from{declare_arg(program, self), to_vector(self.strides())};
      Scan(program, result == ScalarType::Float ? wide : narrow, self.sizes(), dim,
           self.scalar_type(), result)
          .run(from, to);
      return program.finish();
    };
    launch(*cached_program(key, build), {out, self});
  }
  call.finish(std::move(out));
  return true;
}

}  // namespace

const std::vector<Kernel>& scan_kernels() {
  static const std::vector<Kernel> kernels = {
      {"cumsum", scan<kSum, kWideSum>, "fib"},
      {"cumprod", scan<kProduct, kWideProduct>, "fib"},
  };
  return kernels;
}

}  // namespace spyre::aten
