// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string>
#include <vector>

/// One call of an operator, as native kernels see it: every kernel is a `bool (Call&)` registered
/// for the functional, the in-place and the out variant of an operator alike. A kernel that returns
/// false has touched nothing, and the call goes on to the CPU fallback.
namespace spyre::aten {

/// What is fixed for a registered overload.
struct Signature {
  explicit Signature(const c10::FunctionSchema& schema);
  std::string name;           ///< "aten::add.out"
  size_t argument_count = 0;  ///< all of them
  std::vector<int> outputs;   ///< positions of out arguments, or of self of an in-place op
  bool is_in_place = false;
  bool has_out = false;
  std::vector<std::string> argument_names;
};

class Call {
 public:
  Call(const Signature& signature, torch::jit::Stack& stack)
      : signature_(signature),
        stack_(stack),
        arguments_(stack.data() + stack.size() - signature.argument_count) {}

  const Signature& signature() const { return signature_; }
  const c10::IValue& operator[](int position) const { return arguments_[position]; }
  const at::Tensor& tensor(int position) const { return arguments_[position].toTensor(); }
  bool has(int position) const { return !arguments_[position].isNone(); }
  /// None, or an undefined tensor: nullopt.
  std::optional<at::Tensor> maybe_tensor(int position) const;
  /// Position of an argument by name, or -1.
  int find(const char* name) const;

  bool has_output() const { return !signature_.outputs.empty(); }
  /// The tensor to write to, undefined for a functional variant.
  at::Tensor output(int number = 0) const;

  /// Whether every output tensor is on the device and has the dtype at its position.
  bool outputs_are(c10::Device device, c10::ArrayRef<c10::ScalarType> dtypes) const;

  /// Replaces the arguments by the results; the last thing that a kernel does.
  void finish(at::Tensor result);
  void finish(std::vector<at::Tensor> results);
  /// The same for results that were made anew, whatever the variant: they are copied to the output
  /// tensors if there are any.
  void deliver(std::vector<at::Tensor> results);
  void finish_values(std::vector<c10::IValue> results);

 private:
  const Signature& signature_;
  torch::jit::Stack& stack_;
  const c10::IValue* arguments_;
};

/// Gives an out tensor its size. It must not overlap itself.
void resize_out(const at::Tensor& out, at::IntArrayRef size);

/// An out tensor that may overlap an input in part: then the result is made beside it first.
class OutTensor {
 public:
  explicit OutTensor(at::Tensor result) : result_(result), stored_(std::move(result)) {}
  OutTensor(const at::Tensor& result, const at::Tensor& input, bool may_be_input = false);

  const at::Tensor& result() const { return result_; }
  /// What the kernel stores to.
  const at::Tensor& stored() const { return stored_; }
  /// After the launch.
  void settle() const;

 private:
  at::Tensor result_, stored_;
};

}  // namespace spyre::aten
