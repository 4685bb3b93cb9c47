// One use of an op, as the functions of the op see it.
#pragma once

#include <fmt/format.h>

#include "graph/graph.h"

namespace lamina {

// For infer and for kernels: types and attributes.
class Call {
 public:
  Call(const Op& op, std::span<const Type* const> inputs, std::span<const AttrValue> attrs,
       const Origin* origin)
      : op_(op), inputs_(inputs), attrs_(attrs), origin_(origin) {}

  const Op& op() const { return op_; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return i < num_inputs() && inputs_[i] != nullptr; }
  const Type& type(int i) const { return *inputs_[i]; }

  double f(std::string_view attr) const;
  std::int64_t i(std::string_view attr) const;
  const std::string& s(std::string_view attr) const;
  const std::vector<std::int64_t>& list(std::string_view attr) const;
  const std::vector<double>& f_list(std::string_view attr) const;
  const std::shared_ptr<const Graph>& body(std::string_view attr) const;
  std::span<const AttrValue> attrs() const { return attrs_; }
  // The place that created it; null if unknown.
  const Origin* origin() const { return origin_; }

  // Throws "op: message" with the origin if `condition` is false.
  template <typename... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) refuse(fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse(std::string message) const;

  // Checks used by most ops.
  void require_floating(int input) const;
  void require_dtype(int input, DType dtype) const;
  void require_ndim(int input, int ndim) const;
  void require_shape(int input, const Shape& shape) const;
  // Name of an input, for messages ("operands 3" for a variadic one).
  std::string input_name(int i) const;

 protected:
  const Op& op_;
  std::span<const Type* const> inputs_;
  std::span<const AttrValue> attrs_;
  const Origin* origin_;
};

// For kernels and costs: also the types of the results.
class NodeView : public Call {
 public:
  NodeView(const Call& call, std::span<const Type* const> outputs)
      : Call(call), outputs_(outputs) {}
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  const Type& out_type(int i = 0) const { return *outputs_[static_cast<std::size_t>(i)]; }

 private:
  std::span<const Type* const> outputs_;
};

// Calls fn(NodeView) for a node of a graph.
template <typename Fn>
auto with_node_view(const Graph& graph, const Node& node, Fn fn) {
  std::vector<const Type*> inputs, outputs;
  for (ValueId v : node.inputs) inputs.push_back(v == kNoValue ? nullptr : &graph.type(v));
  for (ValueId v : node.outputs) outputs.push_back(&graph.type(v));
  return fn(NodeView(Call(*node.op, inputs, node.attrs, node.origin.get()), outputs));
}

// For lower: also the tensors, in the graph of the smaller ops.
class LowerCall : public Call {
 public:
  LowerCall(const Call& call, std::span<const Tensor> inputs) : Call(call), tensors_(inputs) {}
  Tensor in(int i) const { return has(i) ? tensors_[static_cast<std::size_t>(i)] : Tensor{}; }
  std::span<const Tensor> ins() const { return tensors_; }

 protected:
  std::span<const Tensor> tensors_;
};

// For vjp: also the results and their cotangents.
class VjpCall : public LowerCall {
 public:
  VjpCall(const LowerCall& call, std::span<const Tensor> outputs,
          std::span<const Tensor> cotangents)
      : LowerCall(call), outputs_(outputs), cotangents_(cotangents) {}
  Tensor out(int i) const { return outputs_[static_cast<std::size_t>(i)]; }
  // Null if nothing depends on output i.
  Tensor ct(int i = 0) const { return cotangents_[static_cast<std::size_t>(i)]; }
  std::span<const Tensor> outs() const { return outputs_; }
  std::span<const Tensor> cts() const { return cotangents_; }

 private:
  std::span<const Tensor> outputs_;
  std::span<const Tensor> cotangents_;
};

}  // namespace lamina
