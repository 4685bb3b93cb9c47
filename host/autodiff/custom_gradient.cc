#include "autodiff/custom_gradient.h"

#include <memory>

#include "autodiff/vjp.h"
#include "graph/rewrite.h"
#include "ops/custom.h"
#include "ops/tensor.h"

namespace lamina::autodiff {
namespace {

// Inputs of the gradient's body: the node's inputs that are in its row or belong to tokens, its
// outputs if the kernel reads them, and the existing cotangents.
class Body {
 public:
  Body(const Graph& outer, const Node& node, std::span<const Tensor> cts)
      : op_(ops::custom_of(*node.op)), outer_(outer), node_(node), cts_(cts) {}

  std::shared_ptr<const Graph> make() {
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < op_.start(); ++i) {
      inputs_.push_back(input(op_.inputs[i].name, node_.inputs[i]));
      if (inputs_.back()) operands.push_back(inputs_.back());
    }
    const CustomOp& gradient = *op_.gradient;
    if (gradient.reads_outputs)
      for (std::size_t i = 0; i < op_.num_outputs; ++i)
        input(op_.outputs[i].name, node_.outputs[i]);
    std::vector<Tensor> seeds;
    for (std::size_t i = 0; i < op_.num_outputs; ++i)
      seeds.push_back(cts_[i] ? input("d" + op_.outputs[i].name, node_.outputs[i]) : Tensor{});
    const std::vector<Tensor> results = inline_graph(*node_.body(), body_, operands);
    std::vector<Tensor> wanted;
    for (std::size_t i = 0; i < op_.num_inputs; ++i)
      if (inputs_[i] && is_floating(inputs_[i].dtype())) wanted.push_back(inputs_[i]);
    const std::vector<Tensor> found = vjp(body_, results, seeds, wanted, save_everything());
    for (std::size_t i = 0; i < found.size(); ++i)
      body_.add_output("gradient", found[i] ? found[i] : ops::zeros_like(wanted[i]));
    return std::make_shared<const Graph>(without_dead_nodes(body_));
  }

 private:
  using CustomOp = ops::CustomOp;

  Tensor input(std::string name, ValueId like) {
    return like == kNoValue ? Tensor{} : body_.add_input(std::move(name), outer_.type(like));
  }

  const CustomOp& op_;
  const Graph& outer_;
  const Node& node_;
  std::span<const Tensor> cts_;
  Graph body_;
  std::vector<Tensor> inputs_;
};

}  // namespace

bool has_own_gradient(const Node& node) {
  return ops::is_custom(*node.op) && ops::custom_of(*node.op).gradient != nullptr;
}

std::vector<Tensor> custom_gradient(Graph& graph, const Node& node, std::span<const Tensor> cts) {
  const ops::CustomOp& op = ops::custom_of(*node.op);
  const ops::CustomOp& gradient = *op.gradient;
  Node made{&gradient, {}, node.attrs, {}, node.origin};
  made.set_attr("body", Body(graph, node, cts).make());
  std::vector<Tensor> operands;
  const auto take = [&](ValueId v) {
    operands.push_back(v == kNoValue ? Tensor{} : graph.tensor(v));
  };
  for (std::size_t i = 0; i < op.start(); ++i) take(node.inputs[i]);
  for (std::size_t i = 0; i < op.num_outputs; ++i)
    take(gradient.reads_outputs ? node.outputs[i] : kNoValue);
  for (std::size_t i = 0; i < op.num_outputs; ++i) operands.push_back(cts[i]);
  const std::vector<Tensor> results = graph.add_node_like(made, operands);
  std::vector<Tensor> out(node.inputs.size());
  for (std::size_t i = 0, next = 0; i < op.num_inputs; ++i)
    if (node.inputs[i] != kNoValue && is_floating(graph.type(node.inputs[i]).dtype))
      out[i] = results[next++];
  return out;
}

}  // namespace lamina::autodiff
