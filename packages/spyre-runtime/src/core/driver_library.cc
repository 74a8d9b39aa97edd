// SPDX-License-Identifier: Apache-2.0
#include "core/driver_library.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <vector>

#include "core/environment.h"
#include "core/whole_library.h"
#include "spyre/runtime/text.h"

namespace spyre::runtime {
namespace {

constexpr const char* kDefaultDriver = "libspyre_softdev.so";

std::string directory_of_this_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&load_driver), &info) == 0 ||
      info.dli_fname == nullptr) {
    return "";
  }
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(info.dli_fname, error);
  return error ? "" : path.parent_path().string();
}

/// Checks every field of ABI 1.0: a table that is too short or has a hole is refused, not called.
void check_table(const spyre_driver_api& api) {
  constexpr size_t kNeeded =
      offsetof(spyre_driver_api, program_launch) + sizeof(spyre_driver_api::program_launch);
  if (api.struct_size < kNeeded) {
    throw RuntimeError("its function table has " + std::to_string(api.struct_size) +
                       " bytes, but ABI 1.0 needs " + std::to_string(kNeeded));
  }
  if (api.name == nullptr || api.version == nullptr) {
    throw RuntimeError("its function table has no name or version");
  }
  const auto* first = reinterpret_cast<const unsigned char*>(&api.device_count);
  const auto* end = reinterpret_cast<const unsigned char*>(&api) + kNeeded;
  int index = 0;
  for (const unsigned char* entry = first; entry < end; entry += sizeof(void*), ++index) {
    void* function = nullptr;
    std::memcpy(&function, entry, sizeof(function));
    if (function == nullptr) {
      throw RuntimeError("its function table has a null entry, number " + std::to_string(index) +
                         " of driver.h");
    }
  }
}

}  // namespace

DriverLibrary load_driver(const std::string& path) {
  if (!is_whole_library(path)) {
    throw RuntimeError("the file ends before its contents do; copy or install it again");
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw RuntimeError(reason != nullptr ? reason : "dlopen failed");
  }
  const auto get_api =
      reinterpret_cast<spyre_driver_get_api_fn>(dlsym(library, "spyre_driver_get_api"));
  if (get_api == nullptr) {
    dlclose(library);
    throw RuntimeError("it does not export spyre_driver_get_api, so it is not a Spyre driver");
  }
  const spyre_driver_api* api = get_api(SPYRE_DRIVER_ABI_MAJOR);
  const std::string ours = std::to_string(SPYRE_DRIVER_ABI_MAJOR);
  if (api == nullptr) {
    std::string theirs = "none that this runtime knows";
    for (uint32_t major = 0; major < 64; ++major) {
      if (get_api(major) != nullptr) theirs = std::to_string(major);
    }
    dlclose(library);
    throw RuntimeError("it speaks driver ABI major " + theirs + ", but this runtime speaks " +
                       ours + "; use a driver built for major " + ours);
  }
  if (api->struct_size < offsetof(spyre_driver_api, abi_minor) ||
      api->abi_major != SPYRE_DRIVER_ABI_MAJOR) {
    const std::string theirs = std::to_string(api->abi_major);
    dlclose(library);
    throw RuntimeError("it speaks driver ABI major " + theirs + ", but this runtime speaks " +
                       ours + "; use a driver built for major " + ours);
  }
  try {
    check_table(*api);
  } catch (...) {
    dlclose(library);
    throw;
  }
  return {api, path};
}

const DriverLibrary& driver() {
  static std::mutex mutex;
  static std::atomic<const DriverLibrary*> loaded{nullptr};
  if (const DriverLibrary* library = loaded.load(std::memory_order_acquire)) return *library;
  const std::lock_guard lock(mutex);
  if (const DriverLibrary* library = loaded.load(std::memory_order_acquire)) return *library;

  std::vector<std::string> candidates;
  const std::string chosen = environment::driver_path();
  if (!chosen.empty()) {
    candidates.push_back(chosen);
  } else {
    const std::string directory = directory_of_this_library();
    if (!directory.empty()) candidates.push_back(directory + "/" + kDefaultDriver);
    candidates.push_back(kDefaultDriver);  // by the dynamic loader's own search path
  }
  std::string tried;
  for (const std::string& path : candidates) {
    try {
      const auto* library = new DriverLibrary(load_driver(path));  // lives until the process ends
      loaded.store(library, std::memory_order_release);
      return *library;
    } catch (const RuntimeError& error) {
      tried += "\n  " + printable(path) + ": " + printable(error.what());
    }
  }
  throw RuntimeError(
      std::string("no Spyre driver could be loaded") +
      (chosen.empty() ? "; install spyre-runtime again, or set SPYRE_DRIVER to the path of a driver"
                      : " (path from SPYRE_DRIVER); set it to the path of one that fits, or unset "
                        "it to use the software device") +
      "; tried:" + tried);
}

void DriverCall::raise(spyre_status status) const {
  std::string message(message_, strnlen(message_, sizeof(message_)));
  if (message.empty()) message = "the driver gave no reason";
  throw_status(status, message);
}

void throw_status(spyre_status status, const std::string& given) {
  const std::string message = printable(given);
  switch (status) {
    case SPYRE_INVALID_ARGUMENT: throw ValueError(message);
    case SPYRE_OUT_OF_MEMORY: throw OutOfMemoryError(message);
    case SPYRE_INDEX_ERROR: throw IndexError(message);
    case SPYRE_UNSUPPORTED: throw NotImplementedError(message);
    default:
      throw InternalError("driver \"" + std::string(driver().api->name) + "\" failed (status " +
                          std::to_string(static_cast<int>(status)) + "): " + message +
                          "; please report this");
  }
}

}  // namespace spyre::runtime
