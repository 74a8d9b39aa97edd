// SPDX-License-Identifier: Apache-2.0
// Device times for torch.autograd.profiler.profile(use_device="spyre"): events of the device around
// each operator.
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>

#include "spyre/runtime/runtime.h"
#include "torch/device.h"
#include "torch/errors.h"

namespace spyre::aten {
namespace {

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, torch::profiler::impl::ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    const int index = runtime::current_device();
    if (device != nullptr) *device = static_cast<c10::DeviceIndex>(index);
    translated([&] {
      auto made = std::make_shared<runtime::Event>(index);
      made->record(runtime::current_stream(index));
      *event = std::move(made);
    });
    if (cpu_ns != nullptr) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      *cpu_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    }
  }
  /// Microseconds.
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* start,
                const torch::profiler::impl::ProfilerVoidEventStub* end) const override {
    return translated([&] {
      const auto& first = *static_cast<const runtime::Event*>(start->get());
      const auto& last = *static_cast<const runtime::Event*>(end->get());
      first.synchronize();
      last.synchronize();
      return static_cast<float>(static_cast<double>(first.elapsed_ns(last)) / 1e3);
    });
  }
  // There is no tool outside the process that would show these.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> op) const override {
    const int former = runtime::current_device();
    const int count = device_count_or_zero();
    for (int device = 0; device < count; ++device) {
      translated([&] { runtime::set_current_device(device); });
      op(device);
    }
    translated([&] { runtime::set_current_device(former); });
  }
  void synchronize() const override {
    if (!runtime::is_initialized()) return;
    translated([] { runtime::synchronize_device(runtime::current_device()); });
  }
};

const bool registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(new Stubs);
  return true;
}();

}  // namespace
}  // namespace spyre::aten
