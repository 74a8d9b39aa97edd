// SPDX-License-Identifier: Apache-2.0
#include "core/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "spyre/runtime/errors.h"
#include "spyre/runtime/text.h"

namespace spyre::runtime::environment {
namespace {

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<int> parse_int(std::string_view text) {
  text = trim(text);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void fail(const char* name, std::string_view value, const std::string& allowed) {
  throw ValueError("environment variable " + std::string(name) + " is \"" + printable(value) +
                   "\", but must be " + allowed);
}

/// Unset and empty are the same: nullopt.
std::optional<int> int_in_range(const char* name, int low, int high, const char* what) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::optional<int> value = parse_int(text);
  if (!value || *value < low || *value > high) {
    fail(name, text,
         std::string(what) + " from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

}  // namespace

std::string driver_path() {
  const char* text = std::getenv("SPYRE_DRIVER");
  return text == nullptr ? "" : text;
}

std::optional<int> world_size() {
  return int_in_range("AIU_WORLD_SIZE", 1, kMaxDevices, "a number of devices");
}

std::vector<uint32_t> visible_devices(int present) {
  std::vector<uint32_t> devices;
  const char* text = std::getenv("SPYRE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < present; ++i) devices.push_back(static_cast<uint32_t>(i));
    return devices;
  }
  const std::string allowed = "a comma-separated list of distinct device indices from 0 to " +
                              std::to_string(present - 1) + " (" + std::to_string(present) +
                              (present == 1 ? " device is" : " devices are") + " present)";
  std::string_view rest = text;
  if (trim(rest).empty()) return devices;
  while (true) {
    const size_t comma = rest.find(',');
    const std::optional<int> index = parse_int(rest.substr(0, comma));
    if (!index || *index < 0 || *index >= present) fail("SPYRE_DEVICES", text, allowed);
    const auto device = static_cast<uint32_t>(*index);
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) {
      fail("SPYRE_DEVICES", text, allowed);
    }
    devices.push_back(device);
    if (comma == std::string_view::npos) return devices;
    rest.remove_prefix(comma + 1);
  }
}

Partition partition() {
  const char* text = std::getenv("FLEX_DEVICE");
  const std::string_view value = text == nullptr ? "" : text;
  if (value.empty() || value == "PF") return Partition::kWhole;
  if (value == "VF") return Partition::kPartition;
  if (value == "MOCK") return Partition::kMock;
  fail("FLEX_DEVICE", value,
       "PF (the whole device memory), VF (a partition of it) or MOCK (AIU_WORLD_SIZE devices)");
}

void check_log_levels() {
  struct Choice {
    const char* name;
    std::initializer_list<std::string_view> allowed;
  };
  for (const auto& [name, allowed] : {
           Choice{"TORCH_SENDNN_LOG", {"CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"}},
           Choice{"DTLOG_LEVEL", {"error", "warning", "info", "debug", "trace"}},
       }) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') continue;
    if (std::find(allowed.begin(), allowed.end(), std::string_view(text)) != allowed.end()) {
      continue;
    }
    std::string list;
    for (std::string_view choice : allowed) {
      list += (list.empty() ? "" : ", ") + std::string(choice);
    }
    fail(name, text, "one of " + list);
  }
  int_in_range("DT_DEEPRT_VERBOSE", -1, std::numeric_limits<int>::max(), "a number (-1 disables)");
}

int cores() {
  return int_in_range("SENCORES", 1, kMaxCores, "a number of cores").value_or(kMaxCores);
}

}  // namespace spyre::runtime::environment
