// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

/// Marks what libspyre_runtime exports.
#define SPYRE_RUNTIME_API __attribute__((visibility("default")))

namespace spyre::runtime {

/// What kind of mistake an error is about, and so which Python exception it becomes.
enum class ErrorKind {
  kValue,           ///< misuse: ValueError
  kIndex,           ///< an index out of range: IndexError
  kNotImplemented,  ///< not supported on this device: NotImplementedError
  kOutOfMemory,     ///< torch.OutOfMemoryError
  kRuntime,         ///< the surroundings fail, such as a driver that does not load: RuntimeError
  kInternal,        ///< a bug of this package or of a driver: RuntimeError, asks to be reported
};

/// Every error that the runtime throws, besides std::bad_alloc.
class SPYRE_RUNTIME_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

class SPYRE_RUNTIME_API ValueError : public Error {
 public:
  explicit ValueError(const std::string& message) : Error(ErrorKind::kValue, message) {}
};

class SPYRE_RUNTIME_API IndexError : public Error {
 public:
  explicit IndexError(const std::string& message) : Error(ErrorKind::kIndex, message) {}
};

class SPYRE_RUNTIME_API NotImplementedError : public Error {
 public:
  explicit NotImplementedError(const std::string& message)
      : Error(ErrorKind::kNotImplemented, message) {}
};

class SPYRE_RUNTIME_API OutOfMemoryError : public Error {
 public:
  explicit OutOfMemoryError(const std::string& message) : Error(ErrorKind::kOutOfMemory, message) {}
};

class SPYRE_RUNTIME_API RuntimeError : public Error {
 public:
  explicit RuntimeError(const std::string& message) : Error(ErrorKind::kRuntime, message) {}
};

class SPYRE_RUNTIME_API InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ErrorKind::kInternal, message) {}
};

}  // namespace spyre::runtime
