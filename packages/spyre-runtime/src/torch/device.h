// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "spyre/runtime/runtime.h"

/// Device indices and streams between c10 and the runtime.
namespace spyre::aten {

/// Streams of a device: 0 default, 1-32 low priority, 33-64 high priority.
inline constexpr int kLastStreamId = 64;

/// The index, or the current device for -1. Throws c10::IndexError with the number of devices.
int checked_device(int64_t index);
int checked_device(c10::Device device);
/// Visible devices; 0 if enumeration fails (for callers that must not throw).
c10::DeviceIndex device_count_or_zero() noexcept;
/// Throws in a fork of a process that had opened a device, and while the process exits.
void check_usable();

runtime::StreamId to_stream_id(const c10::Stream& stream);
c10::Stream to_c10_stream(runtime::StreamId stream);

/// Makes reuse of the memory wait for the work queued on `stream` so far.
void record_use(const c10::DataPtr& data, runtime::StreamId stream);

}  // namespace spyre::aten
