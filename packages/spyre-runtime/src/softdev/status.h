// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>

#include "softdev/vm/vm.h"
#include "spyre/driver/driver.h"

namespace spyre::softdev {

/// An error on its way to the ABI: a status and the message for it.
class DriverError : public std::runtime_error {
 public:
  DriverError(spyre_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  spyre_status status() const { return status_; }

 private:
  spyre_status status_;
};

/// The status of the exception being handled, with its message in `message`. For use in a handler.
inline spyre_status current_exception_status(std::string* message) noexcept {
  const auto set = [message](const char* text) {
    try {
      *message = text;
    } catch (...) {
      message->clear();
    }
  };
  try {
    throw;
  } catch (const DriverError& error) {
    set(error.what());
    return error.status();
  } catch (const IndexOutOfRange& error) {
    set(error.what());
    return SPYRE_INDEX_ERROR;
  } catch (const std::bad_alloc&) {
    set("the host is out of memory");
    return SPYRE_OUT_OF_MEMORY;
  } catch (const std::invalid_argument& error) {
    set(error.what());
    return SPYRE_INVALID_ARGUMENT;
  } catch (const std::exception& error) {
    set(error.what());
    return SPYRE_INTERNAL;
  } catch (...) {
    set("unknown exception");
    return SPYRE_INTERNAL;
  }
}

inline void write_error(char* error, const std::string& message) noexcept {
  if (error != nullptr) snprintf(error, SPYRE_DRIVER_ERROR_BYTES, "%s", message.c_str());
}

/// Runs body() and turns what it throws into a status: nothing is thrown across the ABI.
template <class Body>
spyre_status guarded(char* error, Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return SPYRE_OK;
    } else {
      return body();
    }
  } catch (...) {
    std::string message;
    const spyre_status status = current_exception_status(&message);
    write_error(error, message);
    return status;
  }
}

}  // namespace spyre::softdev
