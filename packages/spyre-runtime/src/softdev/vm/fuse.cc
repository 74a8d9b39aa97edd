// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/fuse.h"

#include <algorithm>
#include <utility>

#include "program/check.h"

namespace spyre::softdev {
namespace {

using Kind = Step::Kind;

// Each may come with one more op that keeps its result, the first with a scaling of the sums; and
// there is an end.
constexpr size_t kMaxParts = (kMaxFusedOps - 2) / 2;

class Fuser {
 public:
  Fuser(const std::vector<ValueFacts>& values, const std::vector<AccessPlan>& accesses, Shape lanes,
        int product)
      : values_(values), accesses_(accesses), lanes_(lanes), product_(product) {}

  std::vector<Step> run(const std::vector<Step>& steps) {
    for (const Step& s : steps) take(s);
    flush();
    emit_loads();
    return std::move(out_);
  }

 private:
  /// A value that the run has held in registers, after so many of its parts.
  struct Made {
    int value;
    size_t parts;
    int reads;  // within the run, as what it goes on with
  };

  const ValueFacts& facts(uint32_t value) const { return values_[value]; }
  bool is_block(uint32_t value) const { return facts(value).shape == lanes_; }

  /// A load or store of whole rows that lie in memory as they do in registers.
  bool is_plain(const Step& s) const {
    const AccessPlan& a = accesses_[static_cast<size_t>(s.access)];
    return !s.indexed && !s.masked && a.col_stride == 1 && s.dst.shape == lanes_ &&
           (a.codec == Codec::kSen169 || a.codec == Codec::kFp32);
  }
  bool is_block_load(const Step& s) const { return s.kind == Kind::kLoad && is_plain(s); }
  bool is_block_map(const Step& s) const {
    return s.kind == Kind::kMap && can_fuse(s.op) && s.dst.shape == lanes_;
  }

  void take(const Step& s) {
    if (parts_.empty()) {
      if (begin(s)) return;
      if (!is_movable(s) || depends(s)) emit_loads();
      out_.push_back(s);
      return;
    }
    if (parts_.size() < kMaxParts && go_on(s)) return;
    if (is_block_load(s)) {
      loads_.push_back(s);
    } else if (is_movable(s) && !depends(s)) {
      out_.push_back(s);  // before the run
    } else {
      flush();
      take(s);
    }
  }

  /// Whether the step may as well come before what is pure.
  static bool is_movable(const Step& s) {
    return s.kind == Kind::kMap || s.kind == Kind::kLoad || s.kind == Kind::kSequence ||
           s.kind == Kind::kExpand;
  }

  bool depends(const Step& s) const {
    auto is_new = [&](uint32_t value) {
      const auto v = static_cast<int>(value);
      return std::any_of(made_.begin(), made_.end(), [&](const Made& m) { return m.value == v; }) ||
             std::any_of(loads_.begin(), loads_.end(),
                         [&](const Step& l) { return l.dst.offset == value; });
    };
    for (int i = 0; i < s.reads(); ++i) {
      if (is_new(s.args[i].offset)) return true;
    }
    return (s.has_index && is_new(s.index.offset)) || (s.masked && is_new(s.predicate.offset));
  }

  std::vector<Step>::iterator find_load(uint32_t value) {
    return std::find_if(loads_.begin(), loads_.end(),
                        [&](const Step& l) { return l.dst.offset == value; });
  }

  static From from_memory(Codec codec) {
    return codec == Codec::kSen169 ? From::kSen169 : From::kLanes;
  }

  void hold(uint32_t value) { made_.push_back({static_cast<int>(value), parts_.size(), 0}); }

  /// Begins a run by taking a block that lies in a register, or that a load would put there.
  void take_block(uint32_t value) {
    FusedPart part;
    part.kind = FusedKind::kTake;
    if (auto load = find_load(value); load != loads_.end()) {
      part.access = load->access;
      part.from = from_memory(accesses_[static_cast<size_t>(load->access)].codec);
      parts_.push_back(part);
      hold(value);
      originals_.push_back(*load);
      loads_.erase(load);
      return;
    }
    part.from = From::kLanes;
    part.is_product = static_cast<int>(value) == product_;
    part.operand = {value, facts(value).shape};
    parts_.push_back(part);
    hold(value);
    held_before_ = true;
  }

  bool begin(const Step& s) {
    if (lanes_ != kFull && lanes_ != kCols) return false;
    if (is_block_load(s)) {
      loads_.push_back(s);
      return true;
    }
    if (s.kind == Kind::kStore) {
      // Of a load, or of sums.
      const uint32_t value = s.args[0].offset;
      if (!is_block_store(s)) return false;
      if (find_load(value) == loads_.end() && static_cast<int>(value) != product_) return false;
      take_block(value);
      return go_on(s);
    }
    if (!is_block_map(s)) return false;
    for (int i = 0; i < s.arity; ++i) {
      if (!is_block(s.args[i].offset)) continue;
      take_block(s.args[i].offset);
      return go_on(s);
    }
    return false;
  }

  bool is_block_store(const Step& s) const {
    return s.kind == Kind::kStore && s.op == Op::store && is_plain(s) && is_block(s.args[0].offset);
  }

  bool go_on(const Step& s) {
    const auto held = static_cast<uint32_t>(made_.back().value);
    if (is_block_store(s) && s.args[0].offset == held) {
      FusedPart part;
      part.access = s.access;
      part.kind = accesses_[static_cast<size_t>(s.access)].codec == Codec::kSen169
                      ? FusedKind::kEncode
                      : FusedKind::kKeep;
      originals_.push_back(s);
      const bool is_infinite = parts_.back().op == Op::inf_to_sen169 && facts(held).reads == 1;
      if (is_infinite && part.kind == FusedKind::kEncode) {
        part.kind = FusedKind::kEncodeInfinite;
        parts_.pop_back();
        made_.pop_back();
      } else {
        ++made_.back().reads;
      }
      parts_.push_back(part);
      stores_ = true;
      flush();
      return true;
    }
    if (!is_block_map(s)) return false;
    FusedPart part;
    part.kind = FusedKind::kMap;
    part.op = s.op;
    int reads = 1;
    if (s.arity == 1) {
      if (s.args[0].offset != held) return false;
    } else {
      const bool is_left = s.args[0].offset == held, is_right = s.args[1].offset == held;
      if (!is_left && !is_right) return false;
      if (!is_left) part.kind = FusedKind::kMapLeft;
      reads = is_left + is_right;
      if (reads == 2)
        part.from = From::kX;
      else
        set_operand(&part, s.args[is_left ? 1 : 0]);
    }
    parts_.push_back(part);
    made_.back().reads += reads;
    hold(s.dst.offset);
    originals_.push_back(s);
    return true;
  }

  void set_operand(FusedPart* part, const Operand& operand) {
    if (auto load = find_load(operand.offset); load != loads_.end()) {
      if (facts(operand.offset).reads == 1) {
        part->access = load->access;
        part->from = from_memory(accesses_[static_cast<size_t>(load->access)].codec);
        absorbed_.push_back(*load);
      } else {
        out_.push_back(*load);
        part->from = From::kLanes;
        part->operand = operand;
      }
      loads_.erase(load);
      return;
    }
    part->operand = operand;
    part->from = (operand.shape & kCols) ? From::kLanes : From::kEach;
  }

  void clear() {
    parts_.clear();
    made_.clear();
    originals_.clear();
    absorbed_.clear();
    held_before_ = stores_ = false;
  }

  void emit_loads() {
    out_.insert(out_.end(), loads_.begin(), loads_.end());
    loads_.clear();
  }

  /// Ends the run: one step if that saves a pass, else the steps that it was.
  void flush() {
    if (parts_.empty()) return;
    // Loads that are still to come must not meet what the run stores.
    if (stores_) emit_loads();
    const Made& first = made_.front();
    parts_[0].is_product =
        parts_[0].is_product && facts(static_cast<uint32_t>(first.value)).reads == first.reads;
    if (originals_.size() + absorbed_.size() + parts_[0].is_product >= 2)
      out_.push_back(fused());
    else
      out_.insert(out_.end(), originals_.begin(), originals_.end());
    clear();
  }

  Step fused() const {
    Step step;
    step.kind = Kind::kFused;
    step.dst.shape = lanes_;
    size_t next = 0;
    for (const Made& m : made_) {
      step.fused.insert(step.fused.end(), parts_.begin() + static_cast<std::ptrdiff_t>(next),
                        parts_.begin() + static_cast<std::ptrdiff_t>(m.parts));
      next = m.parts;
      const bool was_there = m.parts == 1 && held_before_;
      if (was_there || facts(static_cast<uint32_t>(m.value)).reads <= m.reads) continue;
      FusedPart keep;
      keep.kind = FusedKind::kKeep;
      keep.operand = {static_cast<uint32_t>(m.value), lanes_};
      step.fused.push_back(keep);
    }
    step.fused.insert(step.fused.end(), parts_.begin() + static_cast<std::ptrdiff_t>(next),
                      parts_.end());
    step.fused.emplace_back();  // kEnd
    for (FusedPart& part : step.fused)
      part.code = kernels().fused_code(part.kind, part.from, part.op);
    return step;
  }

  const std::vector<ValueFacts>& values_;
  const std::vector<AccessPlan>& accesses_;
  const Shape lanes_;
  const int product_;
  std::vector<Step> out_;
  std::vector<FusedPart> parts_;
  std::vector<Made> made_;
  std::vector<Step> originals_;  // what the run is made of
  std::vector<Step> absorbed_;   // besides the loads that are operands of it
  std::vector<Step> loads_;      // seen, and not yet part of anything
  bool held_before_ = false;     // its first value lies in a register anyway
  bool stores_ = false;
};

}  // namespace

std::vector<Step> fuse_steps(const std::vector<Step>& steps, const std::vector<ValueFacts>& values,
                             const std::vector<AccessPlan>& accesses, Shape lanes, int product) {
  return Fuser(values, accesses, lanes, product).run(steps);
}

}  // namespace spyre::softdev
