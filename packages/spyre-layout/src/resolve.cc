// SPDX-License-Identifier: Apache-2.0
#include "resolve.h"

#include <numeric>

// A host offset becomes a device offset digit by digit (Layout::digits()): the quotient by the
// digit's divisor is multiplied by its device stride, the remainder goes on to the next digit. A
// loop nest whose offsets are affine stays affine through a digit if every loop's stride t can be
// written as t = quotient * divisor + remainder so that the remainders, summed over the loops from
// the offset's own, never leave [0, divisor): no carry happens anywhere. `remainder` may be
// negative (a loop that goes up a row and back a column). Where that fails, a loop that passes
// whole multiples of the divisor at regular places is split there.
namespace spyre::layout::detail {
namespace {

/// Makes the loop count up in host offsets.
void make_positive(Resolution* state, size_t k) {
  WorkLoop& loop = state->loops[k];
  if (loop.stride >= 0) return;
  state->rest += (loop.extent - 1) * loop.stride;
  state->device += (loop.extent - 1) * loop.device;
  state->other += (loop.extent - 1) * loop.other;
  loop.stride = -loop.stride;
  loop.device = -loop.device;
  loop.other = -loop.other;
  loop.flipped = !loop.flipped;
}

/// Splits loop k into (extent / inner, inner). A reversed loop's parts are both reversed, so the
/// order of the parts stays outermost first.
void split(WorkLoops* loops, size_t k, int64_t inner) {
  WorkLoop part = (*loops)[k];
  WorkLoop& outer = (*loops)[k];
  part.extent = inner;
  outer.extent /= inner;
  outer.stride *= inner;
  outer.other *= inner;
  outer.device *= inner;
  loops->insert(k + 1, part);
}

/// Splits loop k, if need be, where it passes multiples of the divisor.
void split_at_carries(Resolution* state, size_t k, int64_t divisor, int64_t offset) {
  // Each split leaves an outer loop with a larger gcd with the divisor, so this ends.
  while (true) {
    const WorkLoop loop = state->loops[k];
    const int64_t step = loop.stride % divisor;
    if (step == 0 || loop.extent == 1) return;
    if ((loop.extent - 1) <= (divisor - 1 - offset) / step) return;  // no carry
    const int64_t period = divisor / std::gcd(divisor, step);
    if (period < loop.extent && loop.extent % period == 0) {
      split(&state->loops, k, period);
      return;  // the outer part is a multiple of the divisor now
    }
    // The offset is not aligned: split where the first carry happens, if later ones keep to the
    // beat.
    const int64_t first = (divisor - offset + step - 1) / step;
    const int64_t inner = std::gcd(first, std::gcd(period, loop.extent));
    if (inner <= 1 || inner >= loop.extent) return;
    split(&state->loops, k, inner);
  }
}

constexpr size_t kMostSigned = 8;

/// Chooses for each loop the remainder t mod divisor or that minus the divisor, so that no carry
/// happens. Bit j of the result stands for the j-th loop with a remainder; -1 if there is no such
/// choice.
int choose_signs(const WorkLoops& loops, int64_t divisor, int64_t offset) {
  std::array<int64_t, kMostSigned> up;    // (extent - 1) * remainder
  std::array<int64_t, kMostSigned> down;  // (extent - 1) * (divisor - remainder)
  size_t count = 0;
  int64_t total = offset;
  bool overflow = false;
  for (size_t k = 0; k < loops.size(); ++k) {
    const int64_t step = loops[k].stride % divisor;
    if (step == 0 || loops[k].extent == 1) continue;
    // Anything at or above the divisor is as bad as the divisor: keeps products small.
    const auto reach = [&](int64_t by) {
      return loops[k].extent - 1 > (divisor - 1) / by ? divisor : (loops[k].extent - 1) * by;
    };
    if (count < kMostSigned) {
      up[count] = reach(step);
      down[count] = reach(divisor - step);
    } else {
      overflow = true;
    }
    ++count;
    total += reach(step);
    if (total >= divisor) total = divisor;
  }
  if (total < divisor) return 0;
  if (overflow) return -1;
  for (int choice = 1; choice < (1 << count); ++choice) {
    int64_t low = offset;
    int64_t high = offset;
    for (size_t j = 0; j < count; ++j) {
      if (choice >> j & 1) {
        low -= down[j];
      } else {
        high += up[j];
      }
    }
    if (low >= 0 && high < divisor) return choice;
  }
  return -1;
}

/// Where to cut a nest in which a carry happens: the loop that reaches furthest first, as late as
/// all the others allow.
Cut find_cut(const WorkLoops& loops, int64_t divisor, int64_t offset) {
  const auto reach = [&](size_t k) {
    const int64_t step = loops[k].stride % divisor;
    if (step == 0 || loops[k].extent == 1) return int64_t{0};
    return loops[k].extent - 1 > (divisor - 1) / step ? divisor : (loops[k].extent - 1) * step;
  };
  Cut best;
  int64_t best_reach = -1;
  Cut fallback;
  int64_t fallback_reach = 0;
  for (size_t k = 0; k < loops.size(); ++k) {
    const int64_t mine = reach(k);
    if (mine == 0) continue;
    if (mine > fallback_reach) {
      fallback = {k, 1};
      fallback_reach = mine;
    }
    int64_t others = 0;
    for (size_t j = 0; j < loops.size(); ++j) {
      if (j != k && others < divisor) others += reach(j);
    }
    if (offset + others >= divisor) continue;
    const int64_t step = loops[k].stride % divisor;
    int64_t at = (divisor - 1 - offset - others) / step + 1;
    // From an aligned start, keep as many whole periods together as there are.
    const int64_t period = divisor / std::gcd(divisor, step);
    if (at == period && loops[k].extent > period) at = loops[k].extent / period * period;
    if (at < loops[k].extent && mine > best_reach) {
      best = {k, at};
      best_reach = mine;
    }
  }
  return best_reach >= 0 ? best : fallback;
}

}  // namespace

Outcome resolve(const Layout& layout, Resolution* state, Cut* cut) {
  WorkLoops& loops = state->loops;
  const std::vector<Digit>& digits = layout.digits();
  const bool dense = layout.is_dense();
  for (; state->level < digits.size(); ++state->level) {
    const Digit& digit = digits[state->level];
    for (size_t k = 0; k < loops.size(); ++k) make_positive(state, k);

    if (digit.divisor == 1) {  // no remainder can be left
      if (!dense) {
        int64_t largest = state->rest;
        for (size_t k = 0; k < loops.size(); ++k)
          largest += (loops[k].extent - 1) * loops[k].stride;
        if (largest >= digit.limit) return Outcome::kGap;
      }
      state->device += state->rest * digit.device_stride;
      state->rest = 0;
      for (size_t k = 0; k < loops.size(); ++k) {
        loops[k].device += loops[k].stride * digit.device_stride;
        loops[k].stride = 0;
      }
      continue;
    }

    const int64_t offset = state->rest % digit.divisor;
    int choice = choose_signs(loops, digit.divisor, offset);
    if (choice < 0) {
      for (size_t k = loops.size(); k-- > 0;) split_at_carries(state, k, digit.divisor, offset);
      choice = choose_signs(loops, digit.divisor, offset);
    }
    if (choice < 0) {
      *cut = find_cut(loops, digit.divisor, offset);
      return Outcome::kIndexed;
    }

    int64_t quotient = state->rest / digit.divisor;
    int64_t largest = quotient;
    state->device += quotient * digit.device_stride;
    state->rest = offset;
    int j = 0;
    for (size_t k = 0; k < loops.size(); ++k) {
      WorkLoop& loop = loops[k];
      quotient = loop.stride / digit.divisor;
      int64_t remainder = loop.stride - quotient * digit.divisor;
      if (remainder != 0 && loop.extent > 1 && (choice >> j++ & 1)) {
        ++quotient;
        remainder -= digit.divisor;
      }
      loop.device += quotient * digit.device_stride;
      loop.stride = remainder;
      largest += (loop.extent - 1) * quotient;
    }
    if (!dense && largest >= digit.limit) return Outcome::kGap;
  }
  if (!dense) {
    bool left = state->rest != 0;
    for (size_t k = 0; k < loops.size(); ++k)
      left = left || (loops[k].extent > 1 && loops[k].stride != 0);
    if (left) return Outcome::kGap;
  }
  return Outcome::kAffine;
}

void unflip(Resolution* state) {
  for (size_t k = 0; k < state->loops.size(); ++k) {
    WorkLoop& loop = state->loops[k];
    if (!loop.flipped) continue;
    state->device += (loop.extent - 1) * loop.device;
    state->other += (loop.extent - 1) * loop.other;
    loop.device = -loop.device;
    loop.other = -loop.other;
    loop.flipped = false;
  }
}

Resolution cut_off(Resolution* state, const Cut& cut) {
  Resolution rest = *state;
  WorkLoop& loop = rest.loops[cut.loop];
  rest.rest += cut.at * loop.stride;
  rest.device += cut.at * loop.device;
  rest.other += cut.at * loop.other;
  loop.extent -= cut.at;
  state->loops[cut.loop].extent = cut.at;
  return rest;
}

}  // namespace spyre::layout::detail
