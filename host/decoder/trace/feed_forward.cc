#include "decoder/trace/feed_forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "config/model_keys.h"
#include "decoder/trace/refused_option.h"
#include "graph/type.h"
#include "lamina/names.h"
#include "ops/op_code.h"
#include "ops/registry.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

constexpr std::string_view kIdentity = "linear";

// By the names of config.json; null: the identity.
std::optional<OpCode> op_of(std::string_view activation) {
  if (activation == "silu" || activation == "swish") return OpCode::silu;
  if (activation == "relu") return OpCode::relu;
  if (activation == "sigmoid") return OpCode::sigmoid;
  if (activation == "gelu") return OpCode::gelu;
  if (activation == kIdentity) return {};
  return OpCode::gelu_tanh;  // the key has no other choices
}

Tensor activated(Tensor x, std::string_view activation) {
  const std::optional<OpCode> op = op_of(activation);
  return op ? x.graph->add_node(ops::get(*op), std::span(&x, 1), {}).front() : x;
}

// The product of all; what `glu` computes is one op.
Tensor activated_product(const std::vector<Tensor>& branches,
                         const std::vector<std::string>& activations) {
  if (branches.size() == 2 && activations[0] != kIdentity && activations[1] == kIdentity) {
    const std::string name(ops::get(*op_of(activations[0])).name);
    return ops::glu(branches[0], branches[1], {.activation = name});
  }
  Tensor out = activated(branches[0], activations[0]);
  for (std::size_t i = 1; i < branches.size(); ++i)
    out = out * activated(branches[i], activations[i]);
  return out;
}

bool is_activation(const Op& op) {
  return op.code == OpCode::silu || op.code == OpCode::relu || op.code == OpCode::sigmoid ||
         op.code == OpCode::gelu || op.code == OpCode::gelu_tanh;
}

}  // namespace

void FeedForward::note_param(Tensor param, const registry::ParamDesc& desc) {
  if (desc.axes.size() == 2 && desc.axes[1] == intern_axis(LAMINA_AXIS_MLP))
    last_.push_back(param.id);
}

bool FeedForward::is_last(Tensor weight) const {
  return std::ranges::find(last_, weight.id) != last_.end();
}

Tensor FeedForward::hidden(Tensor x, Tensor weight) {
  const std::vector<std::string>& activations = options_.mlp_activations;
  if (activations.empty() || !is_last(weight)) return x;
  const auto [at, fresh] = hidden_.emplace(x.id, x);
  if (!fresh) return at->second;
  std::vector<Tensor> products = branches(x);
  for (std::size_t i = activations.size(); i < products.size(); ++i) {
    matrices_.leave_out(matrices_.product(products[i])->weight);
    matrices_.leave_out(matrices_.product(products[i])->bias);
  }
  const std::size_t own = products.size();
  products.resize(std::min(own, activations.size()));
  while (products.size() < activations.size())
    products.push_back(another(products[own - 1], products.size() - own + 1));
  return at->second = activated_product(products, activations);
}

std::vector<Tensor> FeedForward::branches(Tensor x) const {
  if (matrices_.product(x)) return {x};
  Graph& graph = *x.graph;
  std::vector<Tensor> out;
  if (const NodeId id = graph.value(x.id).node; id != kNoNode) {
    const Node& node = graph.node(id);
    if (node.op->code == OpCode::glu || is_activation(*node.op))
      for (ValueId input : node.inputs) out.push_back(graph.tensor(input));
  }
  if (out.empty() || std::ranges::any_of(out, [&](Tensor y) { return !matrices_.product(y); }))
    throw RefusedOption{
        {fmt::format("model.{}", config::kMlpActivations),
         "goes with feed-forwards that are activated products with matrices; that of this model "
         "does more, as clamping them",
         {"leave it out"}}};
  return out;
}

Tensor FeedForward::another(Tensor y, std::size_t number) {
  const Product like = *matrices_.product(y);
  const auto one_more = [&](Tensor param) {
    const registry::ParamDesc* desc = matrices_.desc(param);
    if (!desc)
      throw RefusedOption{{fmt::format("model.{}", config::kMlpActivations),
                           "the matrices of this model's feed-forward are computed from others",
                           {"leave it out"}}};
    const std::string_view module = module_of(desc->name);
    const std::string_view name = std::string_view(desc->name).substr(module.size());
    return matrices_.add(
        *desc,
        fmt::format("{}_{}{}",
                    module.substr(module_of(module).empty() ? 0 : module_of(module).size() + 1),
                    number, name),
        *desc);
  };
  const Tensor weight = one_more(like.weight);
  const Tensor bias = like.bias ? one_more(like.bias) : Tensor{};
  const Tensor out = ops::linear(like.x, weight, bias);
  if (const std::string tag = y.graph->value(y.id).tag; !tag.empty()) y.graph->set_tag(out.id, tag);
  return out;
}

}  // namespace lamina::decoder
