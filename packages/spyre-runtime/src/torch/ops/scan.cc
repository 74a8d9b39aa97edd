// SPDX-License-Identifier: Apache-2.0
// Cumulative sums and products: in log2(n) steps, each of which adds to an element what lies so far
// before it that both have taken in equally much.
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <array>

#include "torch/launch.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;
using program::HostDtype;

program::Program build(const Call& call, const at::Tensor& self, const at::Tensor& out, int64_t dim,
                       bool is_product) {
  ProgramBuilder program(call.signature().name);
  const int out_buffer = declare_arg(program, out), self_buffer = declare_arg(program, self);
  const std::vector<int64_t> size = to_vector(self.sizes());
  const int64_t length = size[dim];
  std::vector<int64_t> dense(size.size(), 1);
  for (size_t d = size.size(); d-- > 1;) dense[d - 1] = dense[d] * size[d];
  // Sums stay wide until the end.
  const HostDtype wide =
      register_type(out.scalar_type()) == Type::F ? HostDtype::kFloat32 : HostDtype::kInt64;
  std::array<int, 2> steps{out_buffer, out_buffer};
  if (length > 1) steps = {program.temp(wide, size), program.temp(wide, size)};

  auto stage_over = [&](const char* name, int64_t extent) -> StageBuilder& {
    StageBuilder& stage = program.stage(name);
    for (size_t d = 0; d < size.size(); ++d)
      stage.loop(static_cast<int64_t>(d) == dim ? extent : size[d]);
    return stage;
  };
  StageBuilder& first = stage_over("first", length);
  const Value x = first.load(first.access(self_buffer, to_vector(self.strides())));
  first.store(first.access(steps[0], length > 1 ? dense : to_vector(out.strides())),
              cast(x, self.scalar_type(), out.scalar_type()));
  int now = 0;
  for (int64_t reach = 1; reach < length; reach *= 2) {
    const int from = steps[now];
    now = 1 - now;
    const bool is_last = reach * 2 >= length;
    const int to = is_last ? out_buffer : steps[now];
    const std::vector<int64_t> stride = is_last ? to_vector(out.strides()) : dense;
    StageBuilder& done = stage_over("done", reach);
    done.store(done.access(to, stride), done.load(done.access(from, dense)));
    StageBuilder& step = stage_over("step", length - reach);
    const Value before = step.load(step.access(from, dense));
    const Value here = step.load(step.access(from, dense, reach * dense[dim]));
    step.store(step.access(to, stride, reach * stride[dim]),
               is_product ? before * here : before + here);
  }
  return program.finish();
}

template <bool is_product>
bool scan(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_spyre(self) || type_class(self.scalar_type()) == 0 || self.numel() == 0 ||
      self.dim() == 0)
    return false;
  const int64_t dim = at::maybe_wrap_dim(call[1].toInt(), self.dim());
  const bool is_integral = c10::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  const ScalarType dtype = call.has(2)         ? call[2].toScalarType()
                           : call.has_output() ? call.output().scalar_type()
                           : is_integral       ? ScalarType::Long
                                               : self.scalar_type();
  if (type_class(dtype) == 0 || type_class(dtype) == 'b' ||
      !call.outputs_are(self.device(), {dtype}))
    return false;
  at::Tensor out = empty(self.sizes(), dtype, self.device());
  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(static_cast<int64_t>(self.scalar_type()) << 8 | static_cast<int64_t>(dtype));
  key.add(dim);
  key.add(self.sizes());
  key.add(self.strides());
  launch(*cached_program(key, [&] { return build(call, self, out, dim, is_product); }),
         {out, self});
  call.deliver({std::move(out)});
  return true;
}

}  // namespace

const std::vector<Kernel>& scan_kernels() {
  static const std::vector<Kernel> kernels = {{"cumsum", scan<false>, "fib"},
                                              {"cumprod", scan<true>, "fib"}};
  return kernels;
}

}  // namespace spyre::aten
