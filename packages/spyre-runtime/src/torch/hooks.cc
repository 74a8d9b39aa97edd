// SPDX-License-Identifier: Apache-2.0
// What generic PyTorch code asks of an accelerator.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "spyre/runtime/runtime.h"
#include "torch/device.h"
#include "torch/errors.h"
#include "torch/generator.h"
#include "torch/memory.h"
#include "torch/tensor.h"

namespace spyre::aten {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count_or_zero() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return runtime::is_initialized(); }
  void init() const override {
    check_usable();
    translated([] { runtime::ensure_open(runtime::current_device()); });
  }

  c10::DeviceIndex deviceCount() const override { return device_count_or_zero(); }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    const int index = checked_device(device);
    translated([&] { runtime::set_current_device(index); });
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(runtime::current_device());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex former = getCurrentDevice();
    setCurrentDevice(device);
    return former;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? getCurrentDevice() : exchangeDevice(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return make_generator(device);
  }

  at::Device getDeviceFromPtr(void* data) const override {
    const runtime::Allocation* allocation = runtime::find(data);
    TORCH_CHECK_VALUE(allocation != nullptr, "address ", data, " does not lie in spyre memory");
    return at::Device(kSpyre, static_cast<c10::DeviceIndex>(allocation->device));
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned_memory(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return at::getHostAllocator(kSpyre); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size_bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), static_cast<int64_t>(size_bytes));
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace spyre::aten
