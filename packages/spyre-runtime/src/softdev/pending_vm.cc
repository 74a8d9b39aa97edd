// SPDX-License-Identifier: Apache-2.0
#include "softdev/status.h"
#include "softdev/vm/vm.h"

// In place of the program VM until it is here: refuses every program.
namespace spyre::softdev {
struct VmProgram::Impl {
  std::vector<uint64_t> arg_bytes;
};
VmProgram::VmProgram() = default;
VmProgram::~VmProgram() = default;
std::unique_ptr<VmProgram> VmProgram::load(const void*, size_t) {
  throw DriverError(SPYRE_UNSUPPORTED, "this build of the software device has no program VM");
}
const std::vector<uint64_t>& VmProgram::arg_bytes() const { return impl_->arg_bytes; }
uint64_t VmProgram::scratch_bytes() const { return 0; }
int64_t VmProgram::cost_ns() const { return 0; }
void VmProgram::run(void* const*, void*, ThreadPool&) const {}
}  // namespace spyre::softdev
