// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "softdev/thread_pool.h"
#include "softdev/vm/packed.h"

/// The program VM of the software device: takes the image of a bound program, verifies it, prepares
/// it for this CPU, and runs it on device memory.
namespace spyre::softdev {

/// A gather, scatter or index check met an index out of range. Becomes SPYRE_INDEX_ERROR.
class IndexOutOfRange : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A verified program, ready to run. Immutable after load: may run on several threads at once.
class VmProgram {
 public:
  /// Throws std::invalid_argument with the reason if the image is malformed, of another version, or
  /// has any access that is not proven to lie inside its buffer.
  static std::unique_ptr<VmProgram> load(const void* image, size_t size);
  ~VmProgram();

  /// Argument buffers, in the order of declaration, and the bytes that each must have.
  const std::vector<uint64_t>& arg_bytes() const;
  /// Bytes of scratch memory that a run needs for temporaries; aligned to 128, contents
  /// unspecified.
  uint64_t scratch_bytes() const;
  /// A guess at the run time on one thread. Programs of a few microseconds are best run in place.
  int64_t cost_ns() const;

  /// Runs to the end. `args` are host addresses of the device memory, one per argument, 128-byte
  /// aligned; `scratch` has scratch_bytes(). Blocks. Throws IndexOutOfRange; memory stays
  /// consistent (the stage that failed may have written some of its results). `packed` is the
  /// cache of the memory that arguments lie in.
  void run(void* const* args, void* scratch, ThreadPool& pool, PackedCache& packed) const;

 private:
  VmProgram();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spyre::softdev
