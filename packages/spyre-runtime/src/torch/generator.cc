// SPDX-License-Identifier: Apache-2.0
// Random number generators of the device. Each owns a CPU generator: ops on the host draw from it,
// and device kernels draw the seed of their counter-based generator from it, so that one state
// covers both.
#include "torch/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GeneratorImpl.h>

#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "torch/device.h"
#include "torch/errors.h"
#include "torch/tensor.h"

namespace spyre::aten {
namespace {

constexpr int kMaxDevices = 128;

class SpyreGenerator final : public c10::GeneratorImpl {
 public:
  SpyreGenerator(c10::DeviceIndex device, at::Generator host)
      : GeneratorImpl(c10::Device(kSpyre, device),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}

  const at::Generator& host() const { return host_; }

  void set_current_seed(uint64_t seed) override {
    auto lock = lock_host();
    impl()->set_current_seed(seed);
  }
  uint64_t current_seed() const override { return impl()->current_seed(); }
  uint64_t seed() override {
    auto lock = lock_host();
    return impl()->seed();
  }
  // Pickling asks for the offset of every device's generators. All of this one is in its state.
  void set_offset(uint64_t offset) override {
    TORCH_CHECK_VALUE(offset == 0, "cannot set the offset of a spyre generator to ", offset,
                      ": it has none; set its seed or its state");
  }
  uint64_t get_offset() const override { return 0; }
  void set_state(const c10::TensorImpl& state) override {
    auto lock = lock_host();
    const int64_t bytes = impl()->get_state()->numel();
    TORCH_CHECK_VALUE(state.numel() == bytes, "the state of a spyre generator has ", bytes,
                      " bytes, found ", state.numel(),
                      "; pass what torch.spyre.get_rng_state() or get_state() returned");
    impl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto lock = lock_host();
    return impl()->get_state();
  }

 private:
  at::CPUGeneratorImpl* impl() const { return host_.get<at::CPUGeneratorImpl>(); }
  std::unique_lock<std::mutex> lock_host() const {
    return std::unique_lock<std::mutex>(impl()->mutex_);
  }
  SpyreGenerator* clone_impl() const override {
    auto lock = lock_host();
    return new SpyreGenerator(device().index(), host_.clone());
  }

  at::Generator host_;
};

SpyreGenerator* as_spyre(const at::Generator& generator) {
  TORCH_CHECK_VALUE(generator.device().type() == kSpyre,
                    "expected a generator of device spyre, found one of ", generator.device(),
                    "; make it with torch.Generator(device=\"spyre\")");
  return generator.get<SpyreGenerator>();
}

}  // namespace

namespace {

struct Defaults {
  std::mutex mutex;  ///< guards the seed and the making of generators
  std::optional<uint64_t> seed;
  std::array<std::once_flag, kMaxDevices> made;
  std::array<at::Generator, kMaxDevices> generators;
};

Defaults& defaults() {
  // Leaked: PyTorch may ask for a generator while static destructors run.
  static auto& instance = *new Defaults;
  return instance;
}

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  Defaults& own = defaults();
  const int index = checked_device(device);
  TORCH_CHECK_INDEX(index < kMaxDevices, "spyre device index ", index, " is above the supported ",
                    kMaxDevices - 1);
  at::Generator& generator = own.generators[index];
  std::call_once(own.made[index], [&] {
    at::Generator made = make_generator(static_cast<c10::DeviceIndex>(index));
    const std::lock_guard lock(own.mutex);
    if (own.seed.has_value()) {
      made.set_current_seed(*own.seed);
    } else {
      made.seed();
    }
    generator = std::move(made);
  });
  return generator;
}

void seed_default_generators(uint64_t seed) {
  Defaults& own = defaults();
  const std::lock_guard lock(own.mutex);
  own.seed = seed;
  for (at::Generator& generator : own.generators) {
    if (generator.defined()) generator.set_current_seed(seed);
  }
}

at::Generator make_generator(c10::DeviceIndex device) {
  const auto index = static_cast<c10::DeviceIndex>(checked_device(device));
  return at::make_generator<SpyreGenerator>(index, at::detail::createCPUGenerator());
}

at::Generator host_generator(const std::optional<at::Generator>& generator,
                             c10::DeviceIndex device) {
  const at::Generator& own =
      generator.has_value() && generator->defined() ? *generator : default_generator(device);
  return as_spyre(own)->host();
}

}  // namespace spyre::aten
