// SPDX-License-Identifier: Apache-2.0
#include "torch/fallback_report.h"

#include <ATen/core/Tensor.h>

#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "torch/debug.h"
#include "torch/errors.h"
#include "torch/fallback.h"
#include "torch/tensor.h"

namespace spyre::aten {

using torch::jit::Stack;

namespace {

enum class Mode { kWarn, kSilent, kError };

Mode fallback_mode() {
  const char* value = std::getenv("SPYRE_FALLBACK");
  const std::string_view text = value == nullptr ? "" : value;
  if (text.empty() || text == "warn") return Mode::kWarn;
  if (text == "silent") return Mode::kSilent;
  if (text == "error") return Mode::kError;
  TORCH_CHECK_VALUE(false, "environment variable SPYRE_FALLBACK is \"", value,
                    "\"; allowed are warn (the default), silent and error");
}

struct Counters {
  std::mutex mutex;
  std::vector<std::pair<std::string, int64_t>> counts;
  std::unordered_map<std::string, size_t> index;
  std::unordered_map<std::string, bool> warned;
};

// Leaked: operators may run while static destructors do.
Counters& counters() {
  static auto& instance = *new Counters;
  return instance;
}

/// Counts one use; true if it is the first of this op in the process.
bool count(const std::string& op) {
  Counters& all = counters();
  const std::lock_guard lock(all.mutex);
  const auto [entry, is_new] = all.index.try_emplace(op, all.counts.size());
  if (is_new) all.counts.emplace_back(op, 0);
  ++all.counts[entry->second].second;
  return all.warned.try_emplace(op, true).second;
}

}  // namespace

std::string describe_arguments(const Stack& stack, size_t begin) {
  std::ostringstream out;
  out << '(';
  for (size_t i = begin; i < stack.size(); ++i) {
    if (i != begin) out << ", ";
    const c10::IValue& value = stack[i];
    if (value.isTensor() && value.toTensor().defined()) {
      out << dtype_name(value.toTensor().scalar_type()) << list_text(value.toTensor().sizes());
    } else {
      out << value.tagKind();
    }
  }
  out << ')';
  return out.str();
}

void check_fallback_allowed(const c10::OperatorHandle& op, const std::string& name,
                            const Stack& stack) {
  const size_t begin = stack.size() - op.schema().arguments().size();
  TORCH_CHECK_NOT_IMPLEMENTED(
      fallback_mode() != Mode::kError, name, " on ", describe_arguments(stack, begin),
      " has no kernel on device spyre, and SPYRE_FALLBACK=error forbids running "
      "it on the CPU; unset SPYRE_FALLBACK to allow it");
  SPYRE_DEBUG("fallback to the CPU: " << name << describe_arguments(stack, begin));
}

void announce_fallback(const std::string& name) {
  if (count(name) && fallback_mode() == Mode::kWarn) {
    warn_user(
        name +
        " has no kernel on device spyre and runs on the CPU, with copies there and back; set "
        "SPYRE_FALLBACK=silent to hide this warning or SPYRE_FALLBACK=error to raise instead");
  }
}

std::vector<std::pair<std::string, int64_t>> fallback_counts() {
  Counters& all = counters();
  const std::lock_guard lock(all.mutex);
  return all.counts;
}

void reset_fallback_counts() {
  Counters& all = counters();
  const std::lock_guard lock(all.mutex);
  all.counts.clear();
  all.index.clear();
}

}  // namespace spyre::aten
