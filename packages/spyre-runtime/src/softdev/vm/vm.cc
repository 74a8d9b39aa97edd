// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/vm.h"

#include <optional>

#include "program/bound.h"
#include "softdev/vm/chain.h"
#include "softdev/vm/matmul.h"
#include "softdev/vm/plan.h"
#include "softdev/vm/run.h"
#include "spyre/program/link.h"

namespace spyre::softdev {

struct VmProgram::Impl {
  program::BoundProgram program;
  std::vector<uint64_t> arg_bytes;
  std::vector<std::unique_ptr<LoadedStage>> stages;
  std::vector<Chain> chains;
  double cost_ns = 0;
};

VmProgram::VmProgram() : impl_(std::make_unique<Impl>()) {}
VmProgram::~VmProgram() = default;

std::unique_ptr<VmProgram> VmProgram::load(const void* image, size_t size) {
  std::unique_ptr<VmProgram> vm(new VmProgram);
  Impl& impl = *vm->impl_;
  impl.program = program::deserialize(image, size);
  for (const program::BoundBuffer& b : impl.program.buffers) {
    if (b.kind == program::BufferKind::kArg)
      impl.arg_bytes.push_back(static_cast<uint64_t>(b.bytes));
  }
  for (const program::BoundStage& stage : impl.program.stages) {
    auto s = std::make_unique<LoadedStage>();
    s->plan = plan_stage(impl.program, stage);
    if (stage.schedule == program::Schedule::kMatmul) s->matmul.emplace(s->plan);
    impl.cost_ns += s->plan.cost_ns;
    impl.stages.push_back(std::move(s));
  }
  impl.chains = find_chains(impl.program, impl.stages);
  return vm;
}

const std::vector<uint64_t>& VmProgram::arg_bytes() const { return impl_->arg_bytes; }
uint64_t VmProgram::scratch_bytes() const {
  return static_cast<uint64_t>(impl_->program.scratch_bytes);
}
int64_t VmProgram::cost_ns() const { return static_cast<int64_t>(impl_->cost_ns); }

void VmProgram::run(void* const* args, void* scratch, ThreadPool& pool) const {
  // Packed operands of products; kept by the thread, as its pages cost more than its use.
  static thread_local Workspace shared;
  std::vector<void*> buffers;
  buffers.reserve(impl_->program.buffers.size());
  for (const program::BoundBuffer& b : impl_->program.buffers) {
    buffers.push_back(b.kind == program::BufferKind::kArg
                          ? *args++
                          : static_cast<std::byte*>(scratch) + b.scratch_offset);
  }
  auto chain = impl_->chains.begin();
  for (size_t i = 0; i < impl_->stages.size();) {
    while (chain != impl_->chains.end() && chain->first < i) ++chain;
    const LoadedStage& stage = *impl_->stages[i];
    if (chain != impl_->chains.end() && chain->first == i &&
        can_run(*chain, impl_->program, buffers.data())) {
      run_chain(*chain, impl_->stages, buffers.data(), pool, impl_->program.cores);
      i += chain->count;
      continue;
    }
    if (stage.matmul)
      stage.matmul->run(buffers.data(), pool, impl_->program.cores, shared);
    else
      run_stage(stage.plan, buffers.data(), pool, impl_->program.cores);
    ++i;
  }
}

}  // namespace spyre::softdev
