// mlp_activations: other activations in dense feed-forwards, with a matrix for each.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/model_keys.h"
#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"
#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

constexpr std::string_view kIdentity = "linear";

// Returns the op of an activation's name in config.json.
std::string_view op_of(std::string_view activation) {
  if (activation == "swish") return "silu";
  if (activation == "silu" || activation == "relu" || activation == "sigmoid" ||
      activation == "gelu")
    return activation;
  return "gelu_tanh";  // the key has no other choices
}

constexpr std::string_view kSquaredRelu = "relu2";

Tensor activated(Tensor x, std::string_view activation) {
  if (activation == kIdentity) return x;
  if (activation == kSquaredRelu) return ops::square(ops::relu(x));
  return ops::call(op_of(activation), {x});
}

// Returns the product of all branches; glu is one op.
Tensor activated_product(const std::vector<Tensor>& branches,
                         const std::vector<std::string>& activations) {
  if (branches.size() == 2 && activations[0] != kIdentity && activations[0] != kSquaredRelu &&
      activations[1] == kIdentity)
    return ops::glu(branches[0], branches[1], {.activation = std::string(op_of(activations[0]))});
  Tensor out = activated(branches[0], activations[0]);
  for (std::size_t i = 1; i < branches.size(); ++i)
    out = out * activated(branches[i], activations[i]);
  return out;
}

[[noreturn]] void refuse_activations(std::string why) {
  refuse_option(fmt::format("model.{}", config::kMlpActivations), std::move(why));
}

class FeedForward {
 public:
  FeedForward(Rewriter& r, const std::vector<std::string>& activations)
      : r_(r), activations_(activations) {}

  bool change(NodeId id) {
    namespace in = operand::linear;
    const Node& node = r_.from().node(id);
    if (node.op->def->facts.product != Product::rows ||
        !is_last_matrix(r_.recording(), node.inputs[in::kW]))
      return false;
    std::vector<Tensor> operands = r_.operands(id);
    operands[in::kX] = hidden(node.inputs[in::kX]);
    r_.copy(id, operands);
    return true;
  }

 private:
  // Returns the value that replaces x, the input of the last matrix.
  Tensor hidden(ValueId x) {
    if (const auto known = hidden_.find(x); known != hidden_.end()) return known->second;
    const std::vector<ValueId> own = branches(x);
    for (std::size_t i = activations_.size(); i < own.size(); ++i) {
      const MatrixProduct product = *matrix_product(r_.from(), own[i]);
      r_.leave_out(product.weight);
      r_.leave_out(product.bias);
    }
    std::vector<Tensor> products;
    for (std::size_t i = 0; i < std::min(own.size(), activations_.size()); ++i)
      products.push_back(r_.get(own[i]));
    while (products.size() < activations_.size())
      products.push_back(another(own.back(), products.size() - own.size() + 1));
    return hidden_[x] = activated_product(products, activations_);
  }

  // Returns the products that x is computed from: gate and up, or one.
  std::vector<ValueId> branches(ValueId x) const {
    const Graph& graph = r_.from();
    if (matrix_product(graph, x)) return {x};
    std::vector<ValueId> out;
    if (const NodeId id = graph.value(x).node; id != kNoNode) {
      const OpFacts& facts = graph.node(id).op->def->facts;
      if (facts.gates || facts.is_activation)
        out.assign(graph.node(id).inputs.begin(), graph.node(id).inputs.end());
    }
    if (out.empty() ||
        std::ranges::any_of(out, [&](ValueId y) { return !matrix_product(graph, y); }))
      refuse_activations(
          "needs a feed-forward of activated products with matrices; this model's feed-forward "
          "does more, eg: it squares them (relu2) or clamps them");
    return out;
  }

  // Returns a product like `y` with a new matrix, the `number`th of them.
  Tensor another(ValueId y, std::size_t number) {
    const MatrixProduct like = *matrix_product(r_.from(), y);
    const auto one_more = [&](ValueId param) {
      const registry::ParamDesc* desc = r_.recording().param(param);
      if (!desc)
        refuse_activations("the matrices of this model's feed-forward are computed from others");
      const std::string_view module = module_of(desc->name);
      const std::string_view name = std::string_view(desc->name).substr(module.size());
      return r_.add_param_beside(
          *desc,
          fmt::format("{}_{}{}",
                      module.substr(module_of(module).empty() ? 0 : module_of(module).size() + 1),
                      number, name),
          *desc);
    };
    const Tensor weight = one_more(like.weight);
    const Tensor bias = like.bias == kNoValue ? Tensor{} : one_more(like.bias);
    const Tensor out = ops::linear(r_.get(like.x), weight, bias);
    if (const std::string& tag = r_.from().value(y).tag; !tag.empty())
      r_.graph().set_tag(out.id, tag);
    return out;
  }

  Rewriter& r_;
  const std::vector<std::string>& activations_;
  std::map<ValueId, Tensor> hidden_;  // by values of the old graph
};

bool wanted(const TracePhase& phase) { return !phase.options.mlp_activations.empty(); }

void apply(Recording& recording, const BlockContext& context) {
  Rewriter r(recording, context);
  FeedForward feed_forward(r, context.phase.options.mlp_activations);
  r.run([&](NodeId id) { return feed_forward.change(id); });
}

}  // namespace

constinit const Rewrite kFeedForward = {"feed-forward", wanted, apply};

}  // namespace lamina::decoder
