// SPDX-License-Identifier: Apache-2.0
#include "torch/launch.h"

#include <c10/util/SmallVector.h>

#include <vector>

#include "torch/debug.h"
#include "torch/errors.h"
#include "torch/memory.h"
#include "torch/tensor.h"

namespace spyre::aten {
namespace {

using Args = c10::SmallVector<runtime::Executable::Arg, 8>;

/// A typed copy of a whole storage that holds another dtype, for the time of one launch.
struct Temporary {
  size_t arg;
  runtime::Allocation* original;
  c10::DataPtr owner;
};

bool stores_to(const program::Program& program, int buffer) {
  for (const program::Stage& stage : program.stages) {
    for (const program::Phase& phase : stage.phases) {
      for (const program::Instr& instr : phase.body) {
        if ((instr.op == program::Op::store || instr.op == program::Op::store_add) &&
            stage.accesses.at(static_cast<size_t>(instr.access)).buffer == buffer) {
          return true;
        }
      }
    }
  }
  return false;
}

/// The index in program.buffers of argument number `arg`.
int buffer_of_arg(const program::Program& program, size_t arg) {
  size_t seen = 0;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i].kind != program::BufferKind::kArg) continue;
    if (seen++ == arg) return static_cast<int>(i);
  }
  return -1;
}

void copy_back(const runtime::Allocation* from, runtime::Allocation* to) {
  std::vector<char> bytes(static_cast<size_t>(from->logical_bytes));
  read_bytes(from, 0, from->logical_bytes, bytes.data());
  write_bytes(to, 0, from->logical_bytes, bytes.data());
}

Temporary make_temporary(size_t arg, const at::Tensor& tensor, const Location& location) {
  const layout::HostDtype dtype = host_dtype(tensor.scalar_type());
  const int64_t item = layout::host_itemsize(dtype);
  runtime::Allocation* original = location.allocation;
  SPYRE_DEBUG("a program takes " << dtype_name(tensor.scalar_type()) << " from a storage of "
                                 << layout::host_dtype_name(original->dtype)
                                 << ": through a temporary");
  const int64_t size = original->logical_bytes / item * item;
  runtime::Allocation* typed = allocate_typed(
      original->device, translated([&] { return layout::Layout::row_major({size / item}, dtype); }),
      dtype, size);
  Temporary temporary{arg, original, wrap_allocation(typed)};
  std::vector<char> bytes(static_cast<size_t>(size));
  read_bytes(original, 0, size, bytes.data());
  translated([&] {
    runtime::copy_to_device(runtime::current_stream(typed->device), typed, 0, {size / item}, {1},
                            {bytes.data(), {1}}, /*blocking=*/true);
  });
  return temporary;
}

/// Fills `args`; tensors of another dtype than their storage get a temporary.
void bind(at::ArrayRef<at::Tensor> tensors, Args& args, std::vector<Temporary>& temporaries) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    TORCH_CHECK_VALUE(
        tensor.defined() && tensor.device().type() == kSpyre, "argument ", i,
        " of a device program must be a spyre tensor, found ",
        tensor.defined() ? tensor.device().str() : std::string("an undefined tensor"));
    const Location location = locate(tensor);
    TORCH_CHECK_VALUE(args.empty() || args[0].allocation->device == location.allocation->device,
                      "arguments 0 and ", i, " of a device program are on devices spyre:",
                      args.empty() ? 0 : args[0].allocation->device,
                      " and spyre:", location.allocation->device, "; move them to one device");
    if (C10_UNLIKELY(location.is_reinterpreted)) {
      // Two arguments over one storage share a temporary, so that both see what is stored.
      runtime::Allocation* typed = nullptr;
      for (const Temporary& temporary : temporaries) {
        auto* made = static_cast<runtime::Allocation*>(temporary.owner.get_context());
        if (temporary.original == location.allocation &&
            made->dtype == host_dtype(tensor.scalar_type())) {
          typed = made;
        }
      }
      if (typed == nullptr) {
        temporaries.push_back(make_temporary(i, tensor, location));
        typed = static_cast<runtime::Allocation*>(temporaries.back().owner.get_context());
      }
      args.push_back({typed, location.offset});
    } else {
      args.push_back({location.allocation, location.offset});
    }
  }
}

}  // namespace

void launch(runtime::Executable& executable, at::ArrayRef<at::Tensor> tensors,
            at::ArrayRef<int64_t> symbols) {
  TORCH_CHECK_VALUE(!tensors.empty(), "a device program needs at least one tensor argument");
  Args args;
  std::vector<Temporary> temporaries;
  bind(tensors, args, temporaries);
  translated([&] {
    executable.launch(runtime::current_stream(args[0].allocation->device), args.data(), args.size(),
                      symbols.data(), symbols.size());
  });
  for (const Temporary& temporary : temporaries) {
    bool is_stored = false;
    auto* typed = static_cast<runtime::Allocation*>(temporary.owner.get_context());
    for (size_t i = 0; i < args.size(); ++i) {
      is_stored |= args[i].allocation == typed &&
                   stores_to(executable.program(), buffer_of_arg(executable.program(), i));
    }
    if (is_stored) copy_back(typed, temporary.original);
  }
}

std::string bound_text(runtime::Executable& executable, at::ArrayRef<at::Tensor> tensors,
                       at::ArrayRef<int64_t> symbols) {
  Args args;
  std::vector<Temporary> temporaries;
  bind(tensors, args, temporaries);
  return translated([&] {
    return executable.print_bound(args.data(), args.size(), symbols.data(), symbols.size());
  });
}

}  // namespace spyre::aten
