// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/vm.h"

#include <algorithm>
#include <optional>

#include "program/bound.h"
#include "program/check.h"
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
  std::vector<size_t> written;  ///< arguments, as numbers of buffers
  double cost_ns = 0;
};

namespace {

/// Arguments that some stage stores to.
std::vector<size_t> written_arguments(const program::BoundProgram& program) {
  std::vector<size_t> written;
  for (const program::BoundStage& stage : program.stages) {
    for (const program::Phase& phase : stage.phases) {
      for (const program::Instr& in : phase.body) {
        if (!program::is_store(in.op)) continue;
        const auto buffer =
            static_cast<size_t>(stage.accesses[static_cast<size_t>(in.access)].buffer);
        if (program.buffers[buffer].kind == program::BufferKind::kArg &&
            std::find(written.begin(), written.end(), buffer) == written.end())
          written.push_back(buffer);
      }
    }
  }
  return written;
}

}  // namespace

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
    if (stage.schedule == program::Schedule::kMatmul) s->matmul.emplace(impl.program, s->plan);
    impl.cost_ns += s->plan.cost_ns;
    impl.stages.push_back(std::move(s));
  }
  impl.chains = find_chains(impl.program, impl.stages);
  impl.written = written_arguments(impl.program);
  return vm;
}

const std::vector<uint64_t>& VmProgram::arg_bytes() const { return impl_->arg_bytes; }
uint64_t VmProgram::scratch_bytes() const {
  return static_cast<uint64_t>(impl_->program.scratch_bytes);
}
int64_t VmProgram::cost_ns() const { return static_cast<int64_t>(impl_->cost_ns); }

void VmProgram::run(void* const* args, void* scratch, ThreadPool& pool, PackedCache& packed) const {
  // Packed operands of products; kept by the thread, as its pages cost more than its use.
  static thread_local Workspace shared;
  std::vector<void*> buffers;
  buffers.reserve(impl_->program.buffers.size());
  for (const program::BoundBuffer& b : impl_->program.buffers) {
    buffers.push_back(b.kind == program::BufferKind::kArg
                          ? *args++
                          : static_cast<std::byte*>(scratch) + b.scratch_offset);
  }
  std::vector<Range> written;
  written.reserve(impl_->written.size());
  for (size_t b : impl_->written) {
    const auto begin = reinterpret_cast<uintptr_t>(buffers[b]);
    written.push_back({begin, begin + static_cast<uintptr_t>(impl_->program.buffers[b].bytes)});
  }
  PackedInRun packed_in_run(packed, std::move(written));
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
      stage.matmul->run(buffers.data(), pool, impl_->program.cores, shared, packed_in_run);
    else
      run_stage(stage.plan, buffers.data(), pool, impl_->program.cores);
    ++i;
  }
}

}  // namespace spyre::softdev
