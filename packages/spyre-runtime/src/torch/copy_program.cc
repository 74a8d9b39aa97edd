// SPDX-License-Identifier: Apache-2.0
// Programs that copy and cast. Portable in extents and strides (symbols), so there is one per pair
// of dtypes and rank; the runtime keeps the bound forms.
#include "torch/copy_program.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>
#include <tuple>

#include "spyre/program/link.h"
#include "torch/errors.h"

namespace spyre::aten {
namespace {

using layout::HostDtype;

enum class Kind { kFloat, kInt, kBool };

Kind kind_of(HostDtype dtype) {
  switch (dtype) {
    case HostDtype::kBool: return Kind::kBool;
    case HostDtype::kInt8:
    case HostDtype::kInt16:
    case HostDtype::kInt32:
    case HostDtype::kInt64:
    case HostDtype::kUInt8: return Kind::kInt;
    default: return Kind::kFloat;
  }
}

const char* float_to_int_op(HostDtype to) {
  switch (to) {
    case HostDtype::kInt8: return "f2i_i8";
    case HostDtype::kInt16: return "f2i_i16";
    case HostDtype::kInt32: return "f2i_i32";
    case HostDtype::kUInt8: return "f2i_u8";
    default: return "f2i_i64";
  }
}

bool is_sen169_float(HostDtype dtype) {
  return dtype == HostDtype::kFloat16 || dtype == HostDtype::kBFloat16;
}

/// Instructions that turn register %0 into the value to store; returns its register.
int emit_conversion(std::ostream& out, HostDtype from, HostDtype to, bool keep_infinity_code) {
  const Kind source = kind_of(from);
  const Kind target = kind_of(to);
  if (source == Kind::kFloat && target == Kind::kFloat) {
    if (keep_infinity_code) return 0;
    if (from == HostDtype::kFloat32 && is_sen169_float(to)) {
      out << "    %1 = inf_to_sen169 %0\n";
      return 1;
    }
    if (is_sen169_float(from) && to == HostDtype::kFloat32) {
      out << "    %1 = inf_from_sen169 %0\n";
      return 1;
    }
    return 0;
  }
  if (source == target) return 0;
  const char* op = nullptr;
  if (source == Kind::kFloat) op = target == Kind::kInt ? float_to_int_op(to) : "f2b";
  if (source == Kind::kInt) op = target == Kind::kFloat ? "i2f" : "i2b";
  if (source == Kind::kBool) op = target == Kind::kFloat ? "b2f" : "b2i";
  out << "    %1 = " << op << " %0\n";
  if (source == Kind::kInt && is_sen169_float(to)) {
    out << "    %2 = inf_to_sen169 %1\n";
    return 2;
  }
  return 1;
}

std::string symbols_of(char prefix, size_t rank) {
  std::ostringstream out;
  out << '[';
  for (size_t i = 0; i < rank; ++i) out << (i == 0 ? "" : ", ") << prefix << i;
  out << ']';
  return out.str();
}

std::string copy_text(HostDtype from, HostDtype to, size_t rank, bool keep_infinity_code) {
  const std::string extent = symbols_of('n', rank);
  const std::string source = symbols_of('p', rank);
  const std::string target = symbols_of('q', rank);
  std::ostringstream out;
  out << "spyre.program 1\nname \"copy\"\n";
  for (const char prefix : {'n', 'p', 'q'}) {
    for (size_t i = 0; i < rank; ++i) out << "symbol " << prefix << i << "\n";
  }
  out << "buffer b0 arg " << layout::host_dtype_name(from) << " size " << extent << " stride "
      << source << "\nbuffer b1 arg " << layout::host_dtype_name(to) << " size " << extent
      << " stride " << target << "\nstage \"copy\"\n";
  for (size_t i = 0; i < rank; ++i) out << "  loop n" << i << "\n";
  out << "  access a0 b0 stride " << source << " offset 0\n  access a1 b1 stride " << target
      << " offset 0\n  phase\n    %0 = load a0\n";
  const int value = emit_conversion(out, from, to, keep_infinity_code);
  out << "    store a1 %" << value << "\n";
  return out.str();
}

runtime::Executable& copy_executable(HostDtype from, HostDtype to, size_t rank,
                                     bool keep_infinity_code) {
  using Key = std::tuple<HostDtype, HostDtype, size_t, bool>;
  // Leaked: copies may still be asked for while static destructors run.
  static auto& mutex = *new std::mutex;
  static auto& made = *new std::map<Key, std::unique_ptr<runtime::Executable>>;
  const std::lock_guard lock(mutex);
  auto& entry = made[{from, to, rank, keep_infinity_code}];
  if (entry == nullptr) {
    entry = std::make_unique<runtime::Executable>(
        program::parse(copy_text(from, to, rank, keep_infinity_code)));
  }
  return *entry;
}

std::string masked_store_text(HostDtype dtype) {
  const std::string name(layout::host_dtype_name(dtype));
  return "spyre.program 1\nname \"masked_store\"\nsymbol n\n"
         "buffer b0 arg bool size [n] stride [1]\n"
         "buffer b1 arg " +
         name +
         " size [n] stride [1]\n"
         "buffer b2 arg " +
         name +
         " size [n] stride [1]\n"
         "stage \"masked_store\"\n  loop n\n"
         "  access a0 b0 stride [1] offset 0\n  access a1 b1 stride [1] offset 0\n"
         "  access a2 b2 stride [1] offset 0\n"
         "  phase\n    %0 = load a0\n    %1 = load a1\n    store a2 %1 if %0\n";
}

struct Dim {
  int64_t extent, from, to;
};

}  // namespace

void launch_copy(runtime::Executable::Arg from, runtime::Executable::Arg to,
                 c10::ArrayRef<int64_t> size, c10::ArrayRef<int64_t> from_stride,
                 c10::ArrayRef<int64_t> to_stride, bool keep_infinity_code) {
  c10::SmallVector<Dim, 8> dims;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] == 0) return;
    if (size[i] > 1) dims.push_back({size[i], from_stride[i], to_stride[i]});
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const Dim& a, const Dim& b) { return a.to > b.to; });
  // Neighbours that step through memory as one dimension on both sides become one.
  c10::SmallVector<Dim, 8> merged;
  for (const Dim& dim : dims) {
    if (!merged.empty() && merged.back().from == dim.from * dim.extent &&
        merged.back().to == dim.to * dim.extent) {
      merged.back() = {merged.back().extent * dim.extent, dim.from, dim.to};
    } else {
      merged.push_back(dim);
    }
  }
  if (merged.empty()) merged.push_back({1, 1, 1});
  const size_t rank = merged.size();
  c10::SmallVector<int64_t, 24> symbols(3 * rank);
  for (size_t i = 0; i < rank; ++i) {
    symbols[i] = merged[i].extent;
    symbols[rank + i] = merged[i].from;
    symbols[2 * rank + i] = merged[i].to;
  }
  const runtime::Executable::Arg args[] = {from, to};
  translated([&] {
    copy_executable(from.allocation->dtype, to.allocation->dtype, rank, keep_infinity_code)
        .launch(runtime::current_stream(to.allocation->device), args, 2, symbols.data(),
                symbols.size());
  });
}

void launch_masked_store(runtime::Allocation* mask, runtime::Allocation* from,
                         runtime::Executable::Arg to, int64_t count) {
  // Leaked, as above.
  static auto& mutex = *new std::mutex;
  static auto& made = *new std::map<HostDtype, std::unique_ptr<runtime::Executable>>;
  runtime::Executable* executable = nullptr;
  {
    const std::lock_guard lock(mutex);
    auto& entry = made[from->dtype];
    if (entry == nullptr) {
      entry = translated([&] {
        return std::make_unique<runtime::Executable>(
            program::parse(masked_store_text(from->dtype)));
      });
    }
    executable = entry.get();
  }
  const runtime::Executable::Arg args[] = {{mask, 0}, {from, 0}, to};
  translated([&] {
    executable->launch(runtime::current_stream(to.allocation->device), args, 3, &count, 1);
  });
}

}  // namespace spyre::aten
