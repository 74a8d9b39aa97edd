// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "spyre/driver/driver.h"
#include "spyre/runtime/errors.h"

namespace spyre::runtime {

/// A loaded driver. Never unloaded: its threads and the memory it gave out outlive every owner
/// here.
struct DriverLibrary {
  const spyre_driver_api* api = nullptr;
  std::string path;
};

/// The process's driver, loaded on first use: SPYRE_DRIVER if set, else the software device that
/// lies beside this library. Throws RuntimeError that lists every path tried and the reason it
/// failed; a failure is not remembered, so a corrected SPYRE_DRIVER works in the same process.
const DriverLibrary& driver();

/// Loads one library and checks its table. Throws RuntimeError with the reason.
DriverLibrary load_driver(const std::string& path);

/// A buffer for the driver's message, and the way from a status to an exception.
class DriverCall {
 public:
  DriverCall() { message_[0] = '\0'; }
  operator char*() { return message_; }  // NOLINT: stands in for the char* parameter
  void check(spyre_status status) const {
    if (status != SPYRE_OK) [[unlikely]]
      raise(status);
  }
  [[noreturn]] void raise(spyre_status status) const;
  const char* message() const { return message_; }

 private:
  char message_[SPYRE_DRIVER_ERROR_BYTES];
};

[[noreturn]] void throw_status(spyre_status status, const std::string& message);

}  // namespace spyre::runtime
