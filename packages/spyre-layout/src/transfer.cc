// SPDX-License-Identifier: Apache-2.0
#include "spyre/layout/transfer.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "checked_math.h"
#include "convert.h"
#include "resolve.h"

namespace spyre::layout {
namespace {

using detail::Converter;
using detail::WorkLoop;

// ---- plans --------------------------------------------------------------------------------------

/// Takes a loop into `loops` as a part of an outer one that it counts on from. Parts of a dimension
/// come outermost first, but those of other dimensions may stand between them.
bool merge_part(const WorkLoop& inner, std::vector<WorkLoop>* loops) {
  for (auto outer = loops->rbegin(); outer != loops->rend(); ++outer) {
    if (outer->dim != inner.dim) continue;
    if (outer->device != inner.device * inner.extent || outer->other != inner.other * inner.extent)
      return false;
    outer->extent *= inner.extent;
    outer->device = inner.device;
    outer->other = inner.other;
    return true;
  }
  return false;
}

TransferPiece make_piece(const detail::Resolution& state) {
  TransferPiece piece;
  piece.host_offset = state.other;
  piece.device_offset = state.device;
  std::vector<WorkLoop> loops;
  for (size_t k = 0; k < state.loops.size(); ++k) {
    const WorkLoop& loop = state.loops[k];
    if (loop.extent != 1 && !merge_part(loop, &loops)) loops.push_back(loop);
  }
  for (WorkLoop& loop : loops) {
    if (loop.device < 0) {  // count up on the device
      piece.host_offset += (loop.extent - 1) * loop.other;
      piece.device_offset += (loop.extent - 1) * loop.device;
      loop.other = -loop.other;
      loop.device = -loop.device;
    }
    piece.loops.push_back({loop.extent, loop.other, loop.device});
  }
  std::stable_sort(piece.loops.begin(), piece.loops.end(),
                   [](const TransferLoop& a, const TransferLoop& b) {
                     return a.device_stride > b.device_stride;
                   });
  return piece;
}

void plan_pieces(const Layout& layout, detail::Resolution state,
                 std::vector<TransferPiece>* pieces) {
  // Each turn ends in a piece or in a cut; the depth of the recursion is the number of nested cuts.
  while (true) {
    detail::Cut cut;
    switch (detail::resolve(layout, &state, &cut)) {
      case detail::Outcome::kAffine: pieces->push_back(make_piece(state)); return;
      case detail::Outcome::kGap:
        throw std::out_of_range("some element of the view falls between the positions of " +
                                layout.repr() + "; check the view against its storage");
      case detail::Outcome::kIndexed: {
        detail::Resolution rest = detail::cut_off(&state, cut);
        plan_pieces(layout, state, pieces);
        state = rest;
      }
    }
  }
}

/// Throws unless all offsets of a host array, and sums of their parts, stay well within 64 bits.
void check_reach(const std::vector<int64_t>& size, const std::vector<int64_t>& strides) {
  constexpr int64_t kMost = int64_t{1} << 60;
  int64_t total = 0;
  for (size_t d = 0; d < size.size(); ++d) {
    int64_t part = 0;
    const bool overflow =
        size[d] > 1 && (strides[d] <= -kMost || strides[d] >= kMost ||
                        detail::checked_mul(size[d], std::abs(strides[d]), &part) ||
                        detail::checked_add(total, part, &total) || total > kMost);
    if (overflow) {
      throw std::invalid_argument("size " + format_list(size) + " with host strides " +
                                  format_list(strides) +
                                  " reaches further than 2^60 elements; check the strides");
    }
  }
}

}  // namespace

std::vector<TransferPiece> transfer_plan(const Layout& layout, const std::vector<int64_t>& size,
                                         const std::vector<int64_t>& host_strides,
                                         const std::vector<int64_t>& view_strides,
                                         int64_t storage_offset, Access access) {
  if (host_strides.size() != size.size()) {
    throw std::invalid_argument(
        "size " + format_list(size) + " has " + std::to_string(size.size()) +
        " dimensions, but host strides " + format_list(host_strides) + " have " +
        std::to_string(host_strides.size()) + "; give one stride per dimension");
  }
  check_reach(size, host_strides);
  resolve_view(layout, size, view_strides, storage_offset, access);  // checks
  std::vector<TransferPiece> pieces;
  if (std::find(size.begin(), size.end(), 0) != size.end()) return pieces;
  detail::Resolution state;
  state.rest = storage_offset;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] == 1) continue;
    state.loops.push_back(
        {static_cast<int>(d), size[d], view_strides[d], host_strides[d], 0, false});
  }
  plan_pieces(layout, state, &pieces);
  return pieces;
}

void to_device(const void* host, HostDtype dtype, const std::vector<int64_t>& size,
               const std::vector<int64_t>& host_strides, const Layout& layout, void* device,
               const ParallelFor& parallel) {
  if (layout.host_known() && layout.host_size() != size) {
    throw std::invalid_argument("cannot copy an array of size " + format_list(size) +
                                " into the layout of a tensor of size " +
                                format_list(layout.host_size()) + "; the sizes must be equal");
  }
  const std::vector<int64_t> strides =
      layout.host_known() ? layout.host_strides() : contiguous_strides(size);
  const auto* base = static_cast<const char*>(host);
  for (const TransferPiece& piece :
       transfer_plan(layout, size, host_strides, strides, 0, Access::kWrite)) {
    run_transfer(piece.loops.data(), piece.loops.size(), dtype, layout.format(),
                 const_cast<char*>(base) + piece.host_offset * host_itemsize(dtype), device,
                 piece.device_offset, true, parallel);
  }
}

void from_device(const void* device, const Layout& layout, const std::vector<int64_t>& size,
                 const std::vector<int64_t>& view_strides, int64_t storage_offset, void* host,
                 HostDtype dtype, const std::vector<int64_t>& host_strides,
                 const ParallelFor& parallel) {
  if (overlaps_itself(size, host_strides)) {
    throw std::invalid_argument(
        "cannot copy into a host array of size " + format_list(size) + " with strides " +
        format_list(host_strides) +
        ": several of its elements share one address; give an array without overlaps");
  }
  auto* base = static_cast<char*>(host);
  for (const TransferPiece& piece :
       transfer_plan(layout, size, host_strides, view_strides, storage_offset)) {
    run_transfer(piece.loops.data(), piece.loops.size(), dtype, layout.format(),
                 base + piece.host_offset * host_itemsize(dtype), const_cast<void*>(device),
                 piece.device_offset, false, parallel);
  }
}

namespace {

void copy_packed(const TransferPiece& piece, int bits, const uint8_t* source, uint8_t* target) {
  std::vector<int64_t> index(piece.loops.size(), 0);
  int64_t from = piece.host_offset;
  int64_t to = piece.device_offset;
  while (true) {
    detail::write_packed(target, to, bits, detail::read_packed(source, from, bits));
    size_t k = piece.loops.size();
    while (k > 0) {
      const TransferLoop& loop = piece.loops[--k];
      from += loop.host_stride;
      to += loop.device_stride;
      if (++index[k] < loop.extent) break;
      from -= loop.host_stride * loop.extent;
      to -= loop.device_stride * loop.extent;
      index[k] = 0;
      if (k == 0) return;
    }
    if (piece.loops.empty()) return;
  }
}

}  // namespace

void restickify(const Layout& from, const void* source, const Layout& to, void* target,
                const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                const ParallelFor& parallel) {
  if (from.format() != to.format()) {
    throw std::invalid_argument(std::string("cannot restickify from format ") +
                                format_info(from.format()).name + " to format " +
                                format_info(to.format()).name +
                                "; formats must be equal: convert with from_device and to_device");
  }
  const int bits = format_info(from.format()).bits;
  resolve_view(to, size, strides, 0, Access::kWrite);  // checks
  // First the source's device strides beside host strides, then those in turn become the target's.
  for (const TransferPiece& piece : transfer_plan(from, size, strides, strides, 0)) {
    detail::Resolution state;
    state.rest = piece.host_offset;
    state.other = piece.device_offset;
    for (size_t k = 0; k < piece.loops.size(); ++k) {
      const TransferLoop& loop = piece.loops[k];
      state.loops.push_back(
          {static_cast<int>(k), loop.extent, loop.host_stride, loop.device_stride, 0, false});
    }
    std::vector<TransferPiece> moves;
    plan_pieces(to, state, &moves);
    for (const TransferPiece& move : moves) {
      if (bits < 8) {
        copy_packed(move, bits, static_cast<const uint8_t*>(source), static_cast<uint8_t*>(target));
        continue;
      }
      const auto [dtype, format] = detail::copying_pair(bits / 8);
      run_transfer(
          move.loops.data(), move.loops.size(), dtype, format,
          const_cast<char*>(static_cast<const char*>(source)) + move.host_offset * bits / 8, target,
          move.device_offset, true, parallel);
    }
  }
}

void restickify(const Layout& from, const void* source, const Layout& to, void* target,
                const ParallelFor& parallel) {
  if (!from.host_known()) {
    throw std::invalid_argument("cannot restickify from " + from.repr() +
                                " without knowing its host tensor; give size and strides");
  }
  restickify(from, source, to, target, from.host_size(), from.host_strides(), parallel);
}

}  // namespace spyre::layout
