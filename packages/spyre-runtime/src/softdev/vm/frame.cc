// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/frame.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <string>

#include "program/check.h"
#include "softdev/vm/vm.h"

namespace spyre::softdev {
namespace {

/// One lane of a register that may vary along fewer directions than the block.
template <class T>
const T& lane(const std::byte* base, Shape shape, int64_t cols, int64_t r, int64_t c) {
  const auto* lanes = reinterpret_cast<const T*>(base);
  const int64_t row_pitch = (shape & kRows) ? ((shape & kCols) ? cols : 1) : 0;
  return lanes[r * row_pitch + ((shape & kCols) ? c : 0)];
}

template <class T>
void expand_lanes(std::byte* to, const std::byte* from, Shape shape, Shape wide, int64_t rows,
                  int64_t cols) {
  auto* out = reinterpret_cast<T*>(to);
  const int64_t r_count = (wide & kRows) ? rows : 1, c_count = (wide & kCols) ? cols : 1;
  for (int64_t r = 0; r < r_count; ++r, out += c_count) {
    if (shape == kCols)
      std::memcpy(out, from, static_cast<size_t>(c_count) * sizeof(T));
    else
      std::fill_n(out, c_count, lane<T>(from, shape, cols, r, 0));
  }
}

[[noreturn]] void fail_index(int64_t index, int64_t size) {
  throw IndexOutOfRange("index " + std::to_string(index) + " is out of range for a size of " +
                        std::to_string(size));
}

}  // namespace

void Workspace::Free::operator()(void* p) const { ::operator delete(p, std::align_val_t{64}); }

std::byte* Workspace::get(size_t bytes) {
  if (bytes > size_ || !data_) {
    data_.reset();
    size_ = std::max<size_t>(bytes, 4096);
    data_.reset(static_cast<std::byte*>(::operator new(size_, std::align_val_t{64})));
  }
  return data_.get();
}

// --- odometer ------------------------------------------------------------------------------------

Odometer::Odometer(const std::vector<Dim>& dims, int64_t position, std::vector<int64_t>* offsets)
    : dims_(dims), index_(dims.size(), 0), offsets_(offsets) {
  for (size_t d = dims.size(); d-- > 0;) {
    index_[d] = position % dims[d].count;
    position /= dims[d].count;
    if (index_[d] == 0) continue;
    for (size_t a = 0; a < offsets->size(); ++a) (*offsets)[a] += index_[d] * dims[d].step[a];
  }
}

void Odometer::advance() {
  for (size_t d = dims_.size(); d-- > 0;) {
    const Dim& dim = dims_[d];
    const bool wraps = ++index_[d] == dim.count;
    const int64_t by = wraps ? 1 - dim.count : 1;
    for (size_t a = 0; a < offsets_->size(); ++a) (*offsets_)[a] += by * dim.step[a];
    if (!wraps) return;
    index_[d] = 0;
  }
}

void Odometer::set_block(Frame& frame) const {
  const program::BoundStage& stage = *frame.plan().stage;
  for (size_t d = 0; d < dims_.size(); ++d) {
    if (dims_[d].kind == Dim::Kind::kRowTiles) {
      frame.rows =
          std::min(stage.block_rows, frame.plan().row_extent - index_[d] * stage.block_rows);
    } else if (dims_[d].kind == Dim::Kind::kColTiles) {
      frame.cols =
          std::min(stage.block_lanes, frame.plan().col_extent - index_[d] * stage.block_lanes);
    }
  }
}

// --- frame ---------------------------------------------------------------------------------------

Frame::Frame(const StagePlan& plan, std::byte* arena, void* const* buffers)
    : plan_(plan), arena_(arena), buffers_(buffers) {
  base.reserve(plan.accesses.size());
  for (const AccessPlan& a : plan.accesses) base.push_back(a.offset);
  current = base;
  for (const Constant& c : plan.constants) {
    if (c.bytes == 4)
      std::memcpy(arena + c.offset, &c.f, sizeof c.f);
    else
      std::memcpy(arena + c.offset, &c.i, sizeof c.i);
  }
}

void Frame::run(const std::vector<Step>& steps) {
  for (const Step& s : steps) {
    switch (s.kind) {
      case Step::Kind::kMap: map(s); break;
      case Step::Kind::kLoad: load(s); break;
      case Step::Kind::kStore: store(s); break;
      case Step::Kind::kSequence: sequence(s); break;
      case Step::Kind::kExpand: expand(s); break;
      case Step::Kind::kReduce: reduce(s); break;
      case Step::Kind::kCheck: check(s); break;
      case Step::Kind::kFused: fused(s); break;
    }
  }
}

void Frame::map(const Step& s) {
  const void* args[4];
  for (int i = 0; i < s.arity; ++i) args[i] = at(s.args[i].offset);
  if (!s.by_row) {
    s.map(at(s.dst.offset), args, lanes(s.dst.shape));
    return;
  }
  // Operands of maps by row have lanes of one size.
  int64_t pitch[4];
  for (int i = 0; i < s.arity; ++i) {
    const Shape shape = s.args[i].shape;
    const int64_t bytes = program::op_info(s.op).args[i] == Type::I ? 8 : 4;
    pitch[i] = (shape & kRows) ? ((shape & kCols) ? cols : 1) * bytes : 0;
  }
  std::byte* dst = at(s.dst.offset);
  for (int64_t r = 0; r < rows; ++r, dst += cols * s.bytes) {
    s.map(dst, args, cols);
    for (int i = 0; i < s.arity; ++i) args[i] = static_cast<const std::byte*>(args[i]) + pitch[i];
  }
}

void Frame::expand(const Step& s) {
  const auto run = s.bytes == 4 ? expand_lanes<float> : expand_lanes<int64_t>;
  run(at(s.dst.offset), at(s.args[0].offset), s.args[0].shape, s.dst.shape, rows, cols);
}

void Frame::sequence(const Step& s) {
  const AccessPlan& a = plan_.accesses[static_cast<size_t>(s.access)];
  auto* out = reinterpret_cast<int64_t*>(at(s.dst.offset));
  const int64_t first = current[static_cast<size_t>(s.access)];
  const int64_t r_count = (s.dst.shape & kRows) ? rows : 1,
                c_count = (s.dst.shape & kCols) ? cols : 1;
  for (int64_t r = 0; r < r_count; ++r) {
    for (int64_t c = 0; c < c_count; ++c) *out++ = first + r * a.row_stride + c * a.col_stride;
  }
}

void Frame::reduce(const Step& s) {
  const auto op = static_cast<size_t>(s.op);
  const ReduceFn run = plan_.horizontal ? kernels().reduce_rows[op] : kernels().reduce_cols[op];
  Positions positions{0, 0, 0};
  if (program::is_arg_reduction(s.op)) {
    const AccessPlan& a = plan_.accesses[static_cast<size_t>(s.access)];
    positions = {current[static_cast<size_t>(s.access)], a.row_stride, a.col_stride};
  }
  const Shape shape = s.args[0].shape;
  run(at(s.acc), at(s.aux), at(s.args[0].offset), (shape & kRows) ? rows : 1,
      (shape & kCols) ? cols : 1, positions);
}

void Frame::check(const Step& s) {
  const auto* in = reinterpret_cast<const int64_t*>(at(s.args[0].offset));
  auto* out = reinterpret_cast<int64_t*>(at(s.dst.offset));
  const int64_t r_count = (s.dst.shape & kRows) ? rows : 1,
                c_count = (s.dst.shape & kCols) ? cols : 1;
  for (int64_t r = 0, i = 0; r < r_count; ++r) {
    for (int64_t c = 0; c < c_count; ++c, ++i) {
      const int64_t given = in[i];
      int64_t index = given;
      if (s.wrap && index < 0) index += s.imm;
      if (index < 0 || index >= s.imm) {
        const bool counts =
            !s.masked || lane<float>(at(s.predicate.offset), s.predicate.shape, cols, r, c) != 0;
        if (counts) fail_index(given, s.imm);
      }
      out[i] = index;
    }
  }
}

void Frame::fused(const Step& s) {
  FusedOp ops[kMaxFusedOps];  // not initialised: a step has few
  FusedOp* end = ops;
  int64_t row_count = (s.dst.shape & kRows) ? rows : 1, col_count = cols;
  // Rows that lie side by side everywhere are one.
  bool is_run = true;
  auto add = [&](const FusedPart& part, void* at, int64_t pitch, int64_t ahead) {
    *end++ = {part.code, static_cast<std::byte*>(at), pitch, ahead};
  };
  for (const FusedPart& part : s.fused) {
    if (part.access >= 0) {
      const auto access = static_cast<size_t>(part.access);
      const AccessPlan& a = plan_.accesses[access];
      const int64_t pitch = a.row_stride * a.bytes;
      add(part, static_cast<std::byte*>(buffers_[a.buffer]) + current[access] * a.bytes, pitch,
          a.ahead * a.bytes);
      is_run = is_run && pitch == col_count * a.bytes;
    } else if (part.is_product) {
      constexpr int64_t kBytes = sizeof(float);
      add(part, const_cast<float*>(sums.data), sums.pitch * kBytes, 0);
      is_run = is_run && sums.pitch == col_count;
      if (sums.factor != 1) add(plan_.scale, &sums.factor, 0, 0);
    } else if (part.reads_register() || part.writes_register()) {
      const Shape shape = part.operand.shape;
      const int64_t row = (shape & kCols) ? col_count : 1, pitch = (shape & kRows) ? row : 0;
      add(part, at(part.operand.offset), pitch * static_cast<int64_t>(sizeof(float)), 0);
      is_run = is_run && pitch == (part.from == From::kEach ? 0 : col_count);
    } else {
      add(part, nullptr, 0, 0);
    }
  }
  if (is_run) {
    col_count *= row_count;
    row_count = 1;
  }
  kernels().fused(ops, row_count, col_count);
}

void Frame::load(const Step& s) {
  if (s.indexed || s.masked) return load_guarded(s);
  const AccessPlan& a = plan_.accesses[static_cast<size_t>(s.access)];
  const auto* memory = static_cast<const std::byte*>(buffers_[a.buffer]) +
                       current[static_cast<size_t>(s.access)] * a.bytes;
  const Grid grid{(s.dst.shape & kRows) ? rows : 1, a.row_stride, (s.dst.shape & kCols) ? cols : 1,
                  a.col_stride, a.ahead};
  kernels().load[static_cast<size_t>(a.codec)](at(s.dst.offset), memory, grid);
}

void Frame::store(const Step& s) {
  if (s.indexed || s.masked || s.op == Op::store_add) return store_guarded(s);
  const AccessPlan& a = plan_.accesses[static_cast<size_t>(s.access)];
  auto* memory = static_cast<std::byte*>(buffers_[a.buffer]) +
                 current[static_cast<size_t>(s.access)] * a.bytes;
  const Grid grid{(s.dst.shape & kRows) ? rows : 1, a.row_stride, (s.dst.shape & kCols) ? cols : 1,
                  a.col_stride};
  kernels().store[static_cast<size_t>(a.codec)](memory, at(s.args[0].offset), grid);
}

// --- gathers, scatters and predicates
// --------------------------------------------------------------

/// `host` as a device offset, if it lies in the buffer.
int64_t Frame::checked(const AccessPlan& a, int64_t host) const {
  if (host < 0 || host >= a.host_elements) fail_index(host, a.host_elements);
  return layout::map_offset(a.digits.data(), a.digits.size(), host);
}

/// Calls visit(row, first lane, lane count) for every maximal run of lanes that the predicate lets
/// pass.
template <class Visit>
void Frame::visit_guarded(const Step& s, int64_t row_count, int64_t col_count, Visit visit) {
  for (int64_t r = 0; r < row_count; ++r) {
    if (!s.masked) {
      visit(r, int64_t{0}, col_count);
      continue;
    }
    auto passes = [&](int64_t c) {
      return lane<float>(at(s.predicate.offset), s.predicate.shape, cols, r, c) != 0;
    };
    for (int64_t c = 0; c < col_count;) {
      if (!passes(c)) {
        ++c;
        continue;
      }
      const int64_t first = c;
      while (c < col_count && passes(c)) ++c;
      visit(r, first, c - first);
    }
  }
}

/// Calls visit(device offset, first lane, lane count, device stride) for pieces of a run of lanes
/// that lie evenly on the device, after checking that they lie in the buffer.
template <class Visit>
void Frame::visit_lanes(const Step& s, int64_t row, int64_t first, int64_t count, Visit visit) {
  const AccessPlan& a = plan_.accesses[static_cast<size_t>(s.access)];
  const int64_t start =
      current[static_cast<size_t>(s.access)] + row * a.row_stride + first * a.col_stride;
  if (!a.indexed) {
    visit(start, first, count, a.col_stride);
    return;
  }
  const bool varies = s.has_index && (s.index.shape & kCols) != 0;
  auto index = [&](int64_t c) {
    return s.has_index ? lane<int64_t>(at(s.index.offset), s.index.shape, cols, row, c) : 0;
  };
  auto host = [&](int64_t c) {
    int64_t h = 0;
    if (__builtin_add_overflow(start + (c - first) * a.col_stride, index(c), &h))
      fail_index(index(c), a.host_elements);
    return h;
  };
  if (varies) {
    for (int64_t c = first; c < first + count; ++c)
      visit(checked(a, host(c)), c, int64_t{1}, int64_t{1});
    return;
  }
  // One index for the run: host offsets are even, and device offsets too up to where a digit
  // carries.
  int64_t c = first;
  while (c < first + count) {
    const int64_t h = host(c);
    if (h < 0 || h >= a.host_elements) fail_index(h, a.host_elements);
    // Up to `room` more host elements no digit but the last one changes.
    int64_t device = 0, left = h, room = a.host_elements - 1 - h;
    layout::Digit last{1, 0, 1};
    for (size_t k = 0; k < a.digits.size(); ++k) {
      last = a.digits[k];
      const int64_t quotient = left / last.divisor;
      left -= quotient * last.divisor;
      device += quotient * last.device_stride;
      if (k + 1 < a.digits.size()) room = std::min(room, last.divisor - 1 - left);
    }
    int64_t piece = 1;
    if (a.col_stride == 0)
      piece = first + count - c;
    else if (a.col_stride > 0 && a.col_stride % last.divisor == 0) {
      piece = std::min(room / a.col_stride + 1, first + count - c);
    }
    const int64_t stride = a.col_stride / last.divisor * last.device_stride;
    visit(device, c, piece, stride);
    c += piece;
  }
}

void Frame::load_guarded(const Step& s) {
  const AccessPlan& a = plan_.accesses[static_cast<size_t>(s.access)];
  const int64_t r_count = (s.dst.shape & kRows) ? rows : 1,
                c_count = (s.dst.shape & kCols) ? cols : 1;
  std::byte* out = at(s.dst.offset);
  const auto* memory = static_cast<const std::byte*>(buffers_[a.buffer]);
  const LoadFn run = kernels().load[static_cast<size_t>(a.codec)];
  // Lanes that do not touch memory read 0. The predicate may share no register with the result.
  if (s.masked) std::memset(out, 0, static_cast<size_t>(r_count * c_count * s.bytes));
  visit_guarded(s, r_count, c_count, [&](int64_t r, int64_t first, int64_t count) {
    visit_lanes(s, r, first, count, [&](int64_t device, int64_t c, int64_t n, int64_t stride) {
      run(out + (r * c_count + c) * s.bytes, memory + device * a.bytes, Grid{1, 0, n, stride});
    });
  });
}

void Frame::store_guarded(const Step& s) {
  const AccessPlan& a = plan_.accesses[static_cast<size_t>(s.access)];
  const int64_t r_count = (s.dst.shape & kRows) ? rows : 1,
                c_count = (s.dst.shape & kCols) ? cols : 1;
  std::byte* in = at(s.args[0].offset);
  auto* memory = static_cast<std::byte*>(buffers_[a.buffer]);
  const StoreFn run = kernels().store[static_cast<size_t>(a.codec)];
  visit_guarded(s, r_count, c_count, [&](int64_t r, int64_t first, int64_t count) {
    visit_lanes(s, r, first, count, [&](int64_t device, int64_t c, int64_t n, int64_t stride) {
      std::byte* lanes = in + (r * c_count + c) * s.bytes;
      if (s.op == Op::store_add)
        store_add(s, a, memory + device * a.bytes, lanes, stride, n);
      else
        run(memory + device * a.bytes, lanes, Grid{1, 0, n, stride});
    });
  });
}

/// Adds lane by lane, in order: several may meet at one address.
void Frame::store_add(const Step& s, const AccessPlan& a, std::byte* memory, std::byte* lanes,
                      int64_t stride, int64_t count) {
  const LoadFn read = kernels().load[static_cast<size_t>(a.codec)];
  const StoreFn write = kernels().store[static_cast<size_t>(a.codec)];
  for (int64_t i = 0; i < count; ++i, memory += stride * a.bytes, lanes += s.bytes) {
    const Grid one{1, 0, 1, 1};
    if (s.bytes == 4) {
      float old = 0;
      read(&old, memory, one);
      old += *reinterpret_cast<const float*>(lanes);
      write(memory, &old, one);
    } else {
      int64_t old = 0;
      read(&old, memory, one);
      old = static_cast<int64_t>(static_cast<uint64_t>(old) +
                                 *reinterpret_cast<const uint64_t*>(lanes));
      write(memory, &old, one);
    }
  }
}

// --- accumulators --------------------------------------------------------------------------------

void reset_accumulators(const Step& s, std::byte* arena, int64_t lanes) {
  auto* f = reinterpret_cast<float*>(arena + s.acc);
  auto* i = reinterpret_cast<int64_t*>(arena + s.acc);
  const float infinity = std::numeric_limits<float>::infinity();
  switch (s.op) {
    case Op::reduce_sum:
      std::fill_n(f, lanes, 0.0f);
      std::fill_n(reinterpret_cast<float*>(arena + s.aux), lanes, 0.0f);
      break;
    case Op::reduce_any: std::fill_n(f, lanes, 0.0f); break;
    case Op::reduce_prod:
    case Op::reduce_all: std::fill_n(f, lanes, 1.0f); break;
    case Op::reduce_max: std::fill_n(f, lanes, -infinity); break;
    case Op::reduce_min: std::fill_n(f, lanes, infinity); break;
    case Op::reduce_sum_i:
    case Op::reduce_xor_i: std::fill_n(i, lanes, 0); break;
    case Op::reduce_prod_i: std::fill_n(i, lanes, 1); break;
    case Op::reduce_max_i: std::fill_n(i, lanes, std::numeric_limits<int64_t>::min()); break;
    case Op::reduce_min_i: std::fill_n(i, lanes, std::numeric_limits<int64_t>::max()); break;
    default:  // arg reductions: no position yet
      std::memset(arena + s.acc, 0, static_cast<size_t>(lanes * s.bytes));
      std::fill_n(reinterpret_cast<int64_t*>(arena + s.aux), lanes, -1);
      break;
  }
}

void combine_accumulators(const Step& s, std::byte* into, const std::byte* from, int64_t lanes) {
  const auto op = static_cast<size_t>(s.op);
  if (!program::is_arg_reduction(s.op)) {
    // A chunk's accumulators are one more row of lanes.
    kernels().reduce_cols[op](into + s.acc, into + s.aux, from + s.acc, 1, lanes, {});
    return;
  }
  for (int64_t l = 0; l < lanes; ++l) {
    const int64_t at = reinterpret_cast<const int64_t*>(from + s.aux)[l];
    if (at < 0) continue;
    kernels().reduce_cols[op](into + s.acc + l * s.bytes, into + s.aux + l * 8,
                              from + s.acc + l * s.bytes, 1, 1, {at, 0, 0});
  }
}

}  // namespace spyre::softdev
