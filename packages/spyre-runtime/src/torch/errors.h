// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "spyre/runtime/errors.h"

/// The boundary where errors of the torch-free libraries become c10 exceptions, which PyTorch turns
/// into Python ones of the same kind.
namespace spyre::aten {

[[noreturn]] inline void rethrow_as_c10(const runtime::Error& error) {
  using runtime::ErrorKind;
  const char* what = error.what();
  switch (error.kind()) {
    case ErrorKind::kValue: C10_THROW_ERROR(ValueError, what);
    case ErrorKind::kIndex: C10_THROW_ERROR(IndexError, what);
    case ErrorKind::kNotImplemented: C10_THROW_ERROR(NotImplementedError, what);
    case ErrorKind::kOutOfMemory: C10_THROW_ERROR(OutOfMemoryError, what);
    case ErrorKind::kRuntime:
    case ErrorKind::kInternal: break;
  }
  C10_THROW_ERROR(Error, what);
}

/// Runs `body`, converting what it throws. Costs nothing when it does not throw.
template <class Body>
decltype(auto) translated(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const runtime::Error& error) {
    rethrow_as_c10(error);
  } catch (const std::invalid_argument& error) {  // of spyre::layout and spyre::program
    C10_THROW_ERROR(ValueError, error.what());
  } catch (const std::out_of_range& error) {
    C10_THROW_ERROR(IndexError, error.what());
  }
}

/// A dtype without a format on the device: a NotImplementedError that kernels can tell from others.
class NoDeviceFormat final : public c10::NotImplementedError {
 public:
  using c10::NotImplementedError::NotImplementedError;
};

[[noreturn]] inline void throw_no_format(const std::string& message) {
  throw NoDeviceFormat({__func__, "spyre_runtime", __LINE__}, message);
}

/// A Python UserWarning at the Python line that got here. (TORCH_WARN would name a C++ path of the
/// build.)
inline void warn_user(const std::string& message) {
  c10::warn(c10::Warning(c10::UserWarning(), {__func__, "spyre_runtime", __LINE__}, message,
                         /*verbatim=*/false));
}

/// "[2, 3]"
template <class List>
std::string list_text(const List& values) {
  std::ostringstream out;
  out << '[';
  bool first = true;
  for (auto value : values) {
    if (!first) out << ", ";
    out << value;
    first = false;
  }
  out << ']';
  return out.str();
}

}  // namespace spyre::aten
