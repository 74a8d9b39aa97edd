// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "core/device.h"
#include "program/bound.h"

namespace spyre::runtime {
namespace {

constexpr size_t kMaxBound = 4096;  ///< bound forms in all executables
constexpr size_t kEvictBatch = 512;
constexpr size_t kInlineArgs = 32;

std::atomic<int64_t> programs_made{0};
std::atomic<int64_t> links_made{0};
/// Counts launches, and is the clock by which the least recently used bound forms are found.
std::atomic<int64_t> launches_made{0};

/// A bound program as the driver holds it.
struct Bound {
  Bound(const spyre_driver_api& driver_api, spyre_program* program)
      : api(driver_api), handle(program) {}
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  ~Bound() {
    if (!detail::is_unusable.load()) api.program_unload(handle);
  }
  const spyre_driver_api& api;
  spyre_program* const handle;
  std::atomic<int64_t> last_use{0};
};

/// What a bound form depends on: device, then layout id and offset of each argument, then the
/// symbols.
class Key {
 public:
  Key(int device, const Executable::Arg* args, size_t arg_count, const int64_t* symbols,
      size_t symbol_count)
      : size_(1 + 2 * arg_count + symbol_count) {
    if (size_ > kInline) {
      heap_.resize(size_);
      data_ = heap_.data();
    }
    int64_t* out = data_;
    *out++ = device;
    for (size_t i = 0; i < arg_count; ++i) {
      *out++ = static_cast<int64_t>(args[i].allocation->layout_id);
      *out++ = args[i].storage_offset;
    }
    out = std::copy(symbols, symbols + symbol_count, out);
    uint64_t hash = size_;
    for (const int64_t* value = data_; value != out; ++value) {
      hash = (hash ^ static_cast<uint64_t>(*value)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
    hash_ = hash;
  }
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  uint64_t hash() const { return hash_; }
  bool matches(const std::vector<int64_t>& stored) const {
    return stored.size() == size_ && std::equal(stored.begin(), stored.end(), data_);
  }
  std::vector<int64_t> store() const { return {data_, data_ + size_}; }

 private:
  static constexpr size_t kInline = 40;
  size_t size_;
  uint64_t hash_ = 0;
  int64_t inline_[kInline];
  std::vector<int64_t> heap_;
  int64_t* data_ = inline_;
};

}  // namespace

struct Executable::Impl {
  explicit Impl(program::Program source) : program(std::move(source)) {
    for (const program::Buffer& buffer : program.buffers) {
      if (buffer.kind == program::BufferKind::kArg) arg_dtypes.push_back(buffer.dtype);
    }
  }

  struct Entry {
    std::vector<int64_t> key;
    std::shared_ptr<Bound> bound;
  };

  std::shared_ptr<Bound> find(const Key& key) {
    const std::lock_guard lock(mutex);
    const auto [first, last] = entries.equal_range(key.hash());
    for (auto it = first; it != last; ++it) {
      if (key.matches(it->second.key)) return it->second.bound;
    }
    return nullptr;
  }

  program::BoundProgram link(const Device& owner, const Arg* args, size_t arg_count,
                             const int64_t* symbols, size_t symbol_count) const;
  std::shared_ptr<Bound> bind(Device& owner, const Key& key, const Arg* args, size_t arg_count,
                              const int64_t* symbols, size_t symbol_count);
  void check_args(int device, const Arg* args, size_t arg_count, size_t symbol_count) const;

  /// Every living executable, to find the least recently used bound forms of all.
  struct Registry {
    std::mutex mutex;
    std::vector<Impl*> executables;
    std::atomic<size_t> bound_count{0};
  };
  static Registry& registry();
  /// Drops the bound forms that were not used for longest, over all executables.
  static void evict();

  const program::Program program;
  std::vector<layout::HostDtype> arg_dtypes;
  std::mutex mutex;  ///< guards entries
  std::unordered_multimap<uint64_t, Entry> entries;
};

Executable::Impl::Registry& Executable::Impl::registry() {
  static auto* instance = new Registry;  // outlives static destructors
  return *instance;
}

void Executable::Impl::check_args(int device, const Arg* args, size_t arg_count,
                                  size_t symbol_count) const {
  if (arg_count != arg_dtypes.size() || symbol_count != program.symbols.size()) {
    throw ValueError("program \"" + program.name + "\" takes " + std::to_string(arg_dtypes.size()) +
                     " tensors and " + std::to_string(program.symbols.size()) +
                     " symbols, but was given " + std::to_string(arg_count) + " and " +
                     std::to_string(symbol_count));
  }
  for (size_t i = 0; i < arg_count; ++i) {
    if (args[i].allocation == nullptr) {
      throw ValueError("argument " + std::to_string(i) + " of program \"" + program.name +
                       "\" has no spyre memory");
    }
    if (args[i].allocation->device != device) {
      throw ValueError("argument " + std::to_string(i) + " of program \"" + program.name +
                       "\" is on spyre:" + std::to_string(args[i].allocation->device) +
                       ", but the program runs on spyre:" + std::to_string(device));
    }
  }
}

program::BoundProgram Executable::Impl::link(const Device& owner, const Arg* args, size_t arg_count,
                                             const int64_t* symbols, size_t symbol_count) const {
  std::vector<program::ArgBinding> bindings(arg_count);
  for (size_t i = 0; i < arg_count; ++i) {
    bindings[i].layout = &*args[i].allocation->layout;
    bindings[i].dtype = args[i].allocation->dtype;
    bindings[i].storage_offset = args[i].storage_offset;
  }
  program::LinkOptions options;
  options.cores = owner.properties.cores;
  options.lx_bytes_per_core = owner.properties.lx_bytes;
  try {
    return program::link(program, bindings, {symbols, symbols + symbol_count}, options);
  } catch (const std::invalid_argument& error) {
    throw ValueError(error.what());
  } catch (const std::out_of_range& error) {
    throw ValueError(error.what());
  }
}

std::shared_ptr<Bound> Executable::Impl::bind(Device& owner, const Key& key, const Arg* args,
                                              size_t arg_count, const int64_t* symbols,
                                              size_t symbol_count) {
  const std::vector<uint8_t> image = serialize(link(owner, args, arg_count, symbols, symbol_count));
  spyre_program* handle = nullptr;
  DriverCall call;
  call.check(owner.api.program_load(owner.handle, image.data(), image.size(), &handle, call));
  auto made = std::make_shared<Bound>(owner.api, handle);
  made->last_use.store(launches_made.load(std::memory_order_relaxed), std::memory_order_relaxed);
  links_made.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex);
  const auto [first, last] = entries.equal_range(key.hash());
  for (auto it = first; it != last; ++it) {
    if (key.matches(it->second.key)) return it->second.bound;  // another thread was faster
  }
  entries.emplace(key.hash(), Entry{key.store(), made});
  registry().bound_count.fetch_add(1, std::memory_order_relaxed);
  return made;
}

void Executable::Impl::evict() {
  Registry& all = registry();
  std::vector<std::shared_ptr<Bound>> dropped;  // unloaded after the locks are gone
  const std::lock_guard lock(all.mutex);
  if (all.bound_count.load() <= kMaxBound) return;
  std::vector<int64_t> uses;
  for (Impl* impl : all.executables) {
    const std::lock_guard inner(impl->mutex);
    for (const auto& [hash, entry] : impl->entries) uses.push_back(entry.bound->last_use.load());
  }
  const size_t rank = std::min(kEvictBatch, uses.size());
  if (rank == 0) return;
  std::nth_element(uses.begin(), uses.begin() + static_cast<std::ptrdiff_t>(rank - 1), uses.end());
  const int64_t limit = uses[rank - 1];
  for (Impl* impl : all.executables) {
    const std::lock_guard inner(impl->mutex);
    for (auto it = impl->entries.begin(); it != impl->entries.end() && dropped.size() < rank;) {
      if (it->second.bound->last_use.load() <= limit) {
        dropped.push_back(std::move(it->second.bound));
        it = impl->entries.erase(it);
        all.bound_count.fetch_sub(1);
      } else {
        ++it;
      }
    }
  }
}

Executable::Executable(program::Program program)
    : impl_(std::make_unique<Impl>(std::move(program))) {
  programs_made.fetch_add(1, std::memory_order_relaxed);
  Impl::Registry& all = Impl::registry();
  const std::lock_guard lock(all.mutex);
  all.executables.push_back(impl_.get());
}

Executable::~Executable() {
  Impl::Registry& all = Impl::registry();
  const std::lock_guard lock(all.mutex);
  auto& list = all.executables;
  list.erase(std::remove(list.begin(), list.end(), impl_.get()), list.end());
  all.bound_count.fetch_sub(impl_->entries.size());
}

void Executable::launch(StreamId stream, const Arg* args, size_t arg_count, const int64_t* symbols,
                        size_t symbol_count) {
  Device& owner = device(stream.device);
  impl_->check_args(stream.device, args, arg_count, symbol_count);
  spyre_stream* handle = owner.stream(stream.id);
  const Key key(stream.device, args, arg_count, symbols, symbol_count);
  std::shared_ptr<Bound> bound = impl_->find(key);
  if (bound == nullptr) [[unlikely]] {
    bound = impl_->bind(owner, key, args, arg_count, symbols, symbol_count);
    if (Impl::registry().bound_count.load(std::memory_order_relaxed) > kMaxBound) Impl::evict();
  }
  bound->last_use.store(launches_made.fetch_add(1, std::memory_order_relaxed),
                        std::memory_order_relaxed);

  uint64_t inline_addresses[kInlineArgs];
  std::vector<uint64_t> heap_addresses;
  uint64_t* addresses = inline_addresses;
  if (arg_count > kInlineArgs) {
    heap_addresses.resize(arg_count);
    addresses = heap_addresses.data();
  }
  for (size_t i = 0; i < arg_count; ++i) {
    addresses[i] = args[i].allocation->device_address;
    note_use(args[i].allocation, stream);
  }
  DriverCall call;
  call.check(owner.api.program_launch(handle, bound->handle, addresses,
                                      static_cast<uint32_t>(arg_count), call));
}

const program::Program& Executable::program() const { return impl_->program; }

std::string Executable::print_bound(const Arg* args, size_t arg_count, const int64_t* symbols,
                                    size_t symbol_count) {
  if (arg_count != 0 && args[0].allocation == nullptr)
    impl_->check_args(0, args, arg_count, symbol_count);
  const int index = arg_count == 0 ? current_device() : args[0].allocation->device;
  impl_->check_args(index, args, arg_count, symbol_count);
  return print(impl_->link(device(index), args, arg_count, symbols, symbol_count));
}

ProgramStats program_stats() {
  return {programs_made.load(std::memory_order_relaxed), links_made.load(std::memory_order_relaxed),
          launches_made.load(std::memory_order_relaxed)};
}

}  // namespace spyre::runtime
