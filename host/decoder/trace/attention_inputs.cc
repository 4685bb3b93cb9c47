#include "decoder/trace/attention_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/model_keys.h"
#include "decoder/trace/refused_option.h"
#include "lamina/names.h"
#include "ops/op_code.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

// Ops that put a matrix's elements into heads, and those that change what is in a head.
bool shapes(const Node& node) {
  return node.op->code == OpCode::reshape || node.op->code == OpCode::slice ||
         node.op->code == OpCode::transpose;
}
bool changes_heads(const Node& node) {
  return node.op->code == OpCode::rms_norm || node.op->code == OpCode::rope ||
         node.op->code == OpCode::mul || node.op->code == OpCode::scale ||
         node.op->code == OpCode::cast;
}
bool is_norm(const Node& node) { return node.op->code == OpCode::rms_norm; }

[[noreturn]] void refuse(std::string_view key, std::string what) {
  throw RefusedOption{{fmt::format("model.{}", key), std::move(what), {"leave it out"}}};
}

// Of the options that remake_attention() asks for.
std::string_view first_key(const BlockOptions& options) {
  if (options.qk_norm) return config::kUseQkNorm;
  if (options.qk_norm_weight) return config::kQkNormWithScale;
  if (options.v_norm) return config::kUseVNorm;
  if (options.v_norm_weight) return config::kVNormWithScale;
  if (options.sinks) return config::kSinks;
  return options.qkv_norm_eps ? config::kQkvNormEps : config::kShareKv;
}

constexpr const char* kNames[] = {"queries", "keys", "values"};

}  // namespace

std::vector<Tensor> AttentionInputs::of(const Op& op, std::span<const Tensor> inputs) {
  std::vector<Tensor> out(inputs.begin(), inputs.end());
  if (!options_.remake_attention()) return out;
  if (op.code == OpCode::latent_attention || op.code == OpCode::compressed_attention)
    refuse(first_key(options_),
           fmt::format(
               "is about queries, keys and values of heads; the attention of this model is {}, "
               "which has latents with norms of their own",
               op.name));
  if (op.code != OpCode::attention && op.code != OpCode::moba_mask) return out;
  if (options_.sinks && op.code == OpCode::attention) {
    out.resize(op.inputs.size());
    out[3] = sinks(inputs[0], out[3]);
  }
  out[0] = remade(What::query, inputs[0]);
  if (inputs[1]) out[1] = remade(What::key, inputs[1]);
  if (op.code != OpCode::attention || !inputs[2]) return out;
  out[2] = options_.share_kv ? shared(inputs[1], inputs[2]) : remade(What::value, inputs[2]);
  return out;
}

AttentionInputs::Chain AttentionInputs::chain_of(Tensor x) const {
  Chain out{.base = x, .nodes = {}};
  const Graph& graph = *x.graph;
  while (!(out.matrix = matrices_.product(out.base))) {
    const NodeId id = graph.value(out.base.id).node;
    if (id == kNoNode || !(shapes(graph.node(id)) || changes_heads(graph.node(id)))) break;
    out.nodes.insert(out.nodes.begin(), id);
    out.base = {x.graph, graph.node(id).inputs[0]};
  }
  return out;
}

Tensor AttentionInputs::remade(What what, Tensor x) {
  const auto [at, fresh] = made_.emplace(std::array{x.id, kNoValue}, x);
  if (!fresh) return at->second;
  const Chain chain = chain_of(x);
  return at->second = replay(what, x, chain, chain.base);
}

// Values that follow their own way from where the matrix of keys left off.
Tensor AttentionInputs::shared(Tensor k, Tensor v) {
  const auto [at, fresh] = made_.emplace(std::array{v.id, k.id}, v);
  if (!fresh) return at->second;
  const Chain keys = chain_of(k), values = chain_of(v);
  if (keys.base.id == values.base.id && keys.matrix) {
    if (std::ranges::any_of(values.nodes,
                            [&](NodeId id) { return v.graph->node(id).op->code == OpCode::slice; }))
      refuse(config::kShareKv, "one matrix of this model gives keys and values, side by side");
    return at->second = replay(What::value, v, values, values.base);
  }
  if (!keys.matrix || !values.matrix)
    refuse(config::kShareKv, "values of this model come from no matrix of their own");
  if (keys.base.type() != values.base.type())
    refuse(config::kShareKv,
           fmt::format("keys of this model are {} and values {}", to_string(keys.base.type()),
                       to_string(values.base.type())));
  matrices_.leave_out(values.matrix->weight);
  matrices_.leave_out(values.matrix->bias);
  return at->second = replay(What::value, v, values, keys.base);
}

Tensor AttentionInputs::replay(What what, Tensor was, const Chain& chain, Tensor base) {
  Graph& graph = *base.graph;
  const std::optional<bool> wants = wanted(what);
  const bool has =
      std::ranges::any_of(chain.nodes, [&](NodeId id) { return is_norm(graph.node(id)); });
  const bool adds = wants.value_or(false) && !has;
  if (!has && !adds && weighted(what))
    refuse(what == What::value ? config::kVNormWithScale : config::kQkNormWithScale,
           fmt::format("{} of a layer of this model have no norm", kNames[static_cast<int>(what)]));
  std::size_t place = 0;  // of a norm that is added: what shapes heads comes before it
  for (std::size_t i = 0; i < chain.nodes.size(); ++i)
    if (shapes(graph.node(chain.nodes[i]))) place = i + 1;
  Tensor x = base;
  for (std::size_t i = 0; i <= chain.nodes.size(); ++i) {
    if (adds && i == place) x = normed(what, chain, x);
    if (i == chain.nodes.size()) break;
    const Node node = graph.node(chain.nodes[i]);
    if (is_norm(node) && wants == false) {
      matrices_.leave_out(node.inputs[1] == kNoValue ? Tensor{} : graph.tensor(node.inputs[1]));
      continue;
    }
    if (is_norm(node))
      if (const std::optional<Tensor> changed = changed_norm(what, chain, node, x)) {
        x = *changed;
        continue;
      }
    if (x.id == node.inputs[0]) {
      x = graph.tensor(node.outputs[0]);
      continue;
    }
    std::vector<Tensor> operands;
    for (ValueId input : node.inputs)
      operands.push_back(input == kNoValue ? Tensor{} : graph.tensor(input));
    operands[0] = x;
    x = graph.add_node_like(node, operands).front();
  }
  if (x.id != was.id)
    if (const std::string tag = graph.value(was.id).tag; !tag.empty()) graph.set_tag(x.id, tag);
  return x;
}

// A norm with another epsilon, with weights or without; nothing where it stays as it is.
std::optional<Tensor> AttentionInputs::changed_norm(What what, const Chain& chain, const Node& node,
                                                    Tensor x) {
  Graph& graph = *x.graph;
  const bool has_weight = node.inputs[1] != kNoValue;
  const bool wants_weight = weighted(what).value_or(has_weight);
  if (wants_weight == has_weight && !options_.qkv_norm_eps) return {};
  Tensor weight = has_weight ? graph.tensor(node.inputs[1]) : Tensor{};
  if (has_weight && !wants_weight) {
    matrices_.leave_out(weight);
    weight = {};
  }
  if (!has_weight && wants_weight) weight = norm_weight(what, chain, x);
  Node changed = node;
  if (options_.qkv_norm_eps) changed.set_attr("eps", *options_.qkv_norm_eps);
  const Tensor operands[] = {x, weight};
  return graph.add_node_like(changed, operands).front();
}

Tensor AttentionInputs::normed(What what, const Chain& chain, Tensor x) {
  const Tensor weight = weighted(what).value_or(true) ? norm_weight(what, chain, x) : Tensor{};
  const double eps = options_.qkv_norm_eps.value_or(options_.norm_eps);
  return ops::rms_norm(x, weight, {.eps = eps});
}

// Zeros at first, as MaxText's.
Tensor AttentionInputs::sinks(Tensor q, Tensor own) {
  if (own) refuse(config::kSinks, "the attention of this model has sinks of its own");
  const Chain chain = chain_of(q);
  const registry::ParamDesc* matrix = chain.matrix ? matrices_.desc(chain.matrix->weight) : nullptr;
  if (!matrix)
    refuse(config::kSinks,
           "queries of this model come from no matrix that their sinks could be kept beside");
  registry::ParamDesc desc;
  desc.shape = Shape{q.dim(2)};
  desc.axes = {intern_axis(LAMINA_AXIS_HEADS)};
  desc.role = registry::Role::scalar;
  desc.init = {registry::InitSpec::Kind::zeros, 0, 0};
  return matrices_.add(*matrix, "sinks", std::move(desc));
}

Tensor AttentionInputs::norm_weight(What what, const Chain& chain, Tensor x) {
  const registry::ParamDesc* matrix = chain.matrix ? matrices_.desc(chain.matrix->weight) : nullptr;
  if (!matrix)
    refuse(what == What::value ? config::kUseVNorm : config::kUseQkNorm,
           fmt::format("{} of this model come from no matrix that their norm could be kept beside",
                       kNames[static_cast<int>(what)]));
  constexpr const char* names[] = {"q_norm.weight", "k_norm.weight", "v_norm.weight"};
  registry::ParamDesc desc;
  desc.shape = Shape{x.dim(-1)};
  desc.axes = {intern_axis(LAMINA_AXIS_NORM)};
  desc.role = registry::Role::norm;
  desc.init = {registry::InitSpec::Kind::constant, 1, 0};
  return matrices_.add(*matrix, names[static_cast<int>(what)], std::move(desc));
}

std::optional<bool> AttentionInputs::wanted(What what) const {
  return what == What::value ? options_.v_norm : options_.qk_norm;
}
std::optional<bool> AttentionInputs::weighted(What what) const {
  return what == What::value ? options_.v_norm_weight : options_.qk_norm_weight;
}

}  // namespace lamina::decoder
