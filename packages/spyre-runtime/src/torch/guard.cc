// SPDX-License-Identifier: Apache-2.0
// Devices, streams and events as c10's device guards see them.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "spyre/runtime/runtime.h"
#include "torch/device.h"
#include "torch/errors.h"
#include "torch/tensor.h"

namespace spyre::aten {

runtime::StreamId to_stream_id(const c10::Stream& stream) {
  TORCH_CHECK_VALUE(stream.device_type() == kSpyre, "expected a spyre stream, found one of device ",
                    stream.device());
  TORCH_CHECK_VALUE(stream.id() >= 0 && stream.id() <= kLastStreamId, "spyre stream id ",
                    stream.id(), " is out of range: ids are 0 to ", kLastStreamId);
  const int device = checked_device(stream.device_index());
  return {device, static_cast<int>(stream.id())};
}

c10::Stream to_c10_stream(runtime::StreamId stream) {
  return c10::Stream(c10::Stream::UNSAFE,
                     c10::Device(kSpyre, static_cast<c10::DeviceIndex>(stream.device)), stream.id);
}

int checked_device(int64_t index) {
  if (index == -1) return runtime::current_device();
  const int count = translated([] { return runtime::device_count(); });
  // PyTorch's devices keep eight bits of an index; 256 and above arrive as valid ones.
  const std::string wrapped =
      index < -1 ? " (or " + std::to_string(index + 256) + ", wrapped by PyTorch)" : "";
  TORCH_CHECK_INDEX(
      index >= 0 && index < count, "spyre device index ", index, wrapped,
      " is out of range: ", count == 1 ? "1 device is" : std::to_string(count) + " devices are",
      " visible; choose an index from 0 to ", count - 1,
      " or make more visible with AIU_WORLD_SIZE or SPYRE_DEVICES");
  return static_cast<int>(index);
}

int checked_device(c10::Device device) {
  TORCH_CHECK_VALUE(device.type() == kSpyre, "expected a spyre device, found ", device);
  return checked_device(device.index());
}

namespace {

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  static c10::Device device_at(int index) {
    return c10::Device(kSpyre, static_cast<c10::DeviceIndex>(index));
  }

  c10::DeviceType type() const override { return kSpyre; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const int former = runtime::current_device();
    if (former != device.index()) setDevice(device);
    return device_at(former);
  }
  c10::Device getDevice() const override { return device_at(runtime::current_device()); }
  void setDevice(c10::Device device) const override {
    const int index = checked_device(device);
    translated([&] { runtime::set_current_device(index); });
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() == runtime::current_device()) return;
    try {
      runtime::set_current_device(device.index());
    } catch (const std::exception& error) {
      // Called from destructors, which must not throw; the index was valid when the guard was made.
      TORCH_WARN("could not return to spyre device ", static_cast<int>(device.index()), ": ",
                 error.what());
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count_or_zero(); }

  c10::Stream getStream(c10::Device device) const override {
    const int index = checked_device(device);
    return to_c10_stream(translated([&] { return runtime::current_stream(index); }));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return to_c10_stream({checked_device(device), 0});
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const override {
    return getNewStream(device, is_high_priority ? 1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    const int index = checked_device(device);
    return to_c10_stream(translated([&] { return runtime::stream_from_pool(index, priority); }));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const runtime::StreamId id = to_stream_id(stream);
    return to_c10_stream(translated([&] { return runtime::exchange_stream(id); }));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    // There is no handle to share with other libraries; the id is what identifies a stream.
    return reinterpret_cast<void*>(static_cast<intptr_t>(to_stream_id(stream).id));
  }
  bool queryStream(const c10::Stream& stream) const override {
    const runtime::StreamId id = to_stream_id(stream);
    return translated([&] { return runtime::query(id); });
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    const runtime::StreamId id = to_stream_id(stream);
    translated([&] { runtime::synchronize(id); });
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    const int index = checked_device(device);
    translated([&] { runtime::synchronize_device(index); });
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    const runtime::StreamId id = to_stream_id(stream);
    TORCH_CHECK_VALUE(device == -1 || device == id.device,
                      "an event of spyre:", static_cast<int>(device),
                      " cannot be recorded on a stream of spyre:", id.device);
    translated([&] {
      if (*event == nullptr)
        *event = new runtime::Event(id.device, flag == c10::EventFlag::BACKEND_DEFAULT);
      static_cast<runtime::Event*>(*event)->record(id);
    });
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const runtime::StreamId id = to_stream_id(stream);
    translated([&] { static_cast<runtime::Event*>(event)->block(id); });
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    return translated([&] { return static_cast<runtime::Event*>(event)->query(); });
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    translated([&] { static_cast<runtime::Event*>(event)->synchronize(); });
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<runtime::Event*>(event);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK_VALUE(start != nullptr && end != nullptr,
                      "both events must be recorded before the time between them is asked for");
    return translated([&] {
      return static_cast<double>(static_cast<runtime::Event*>(start)->elapsed_ns(
                 *static_cast<runtime::Event*>(end))) /
             1e6;
    });
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    record_use(data, to_stream_id(stream));
  }

  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    uint64_t bits = 0;
    for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
      // The bits of c10::DeviceCapability are numbered by ScalarType.
      if (i < 64 && maybe_host_dtype(static_cast<c10::ScalarType>(i))) bits |= uint64_t{1} << i;
    }
    capability.capability_data.capability_bits = bits;
    return capability;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl)

}  // namespace
}  // namespace spyre::aten
