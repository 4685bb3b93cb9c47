#include "decoder/trace/host_options.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "config/model_keys.h"
#include "decoder/trace/lower_call.h"
#include "decoder/trace/refused_option.h"
#include "ops/attention.h"
#include "ops/op_code.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

bool is_attention(const Op& op) {
  return op.code == OpCode::attention || op.code == OpCode::latent_attention ||
         op.code == OpCode::compressed_attention;
}

bool depends_on(Tensor x, Tensor on) {
  const Graph& graph = *x.graph;
  std::vector<ValueId> open = {x.id};
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (value == on.id) return true;
    if (value == kNoValue || !seen.insert(value).second) continue;
    if (const NodeId node = graph.value(value).node; node != kNoNode)
      for (ValueId input : graph.node(node).inputs) open.push_back(input);
  }
  return false;
}

}  // namespace

Tensor drop_channels(Tensor x, const std::function<Tensor(Tensor ones)>& draw) {
  const DType wide = sum_dtype(x.dtype());
  Shape shape = x.shape();
  shape[-2] = 1;
  const Tensor mask = draw(ops::constant(*x.graph, {wide, shape, {}}, 1));
  return ops::cast(ops::cast(x, wide) * mask, x.dtype());
}

HostOptions::HostOptions(const BlockOptions& options, bool training, Draw draw,
                         Matrices::MakeParam make_param)
    : options_(options),
      draw_(std::move(draw)),
      matrices_(std::move(make_param)),
      attention_inputs_(options_, matrices_),
      feed_forward_(options_, matrices_) {
  if (!training) options_.dropout = options_.attention_dropout = 0;
}

void HostOptions::note_param(Tensor param, const registry::ParamDesc& desc) {
  matrices_.note_param(param, desc);
  feed_forward_.note_param(param, desc);
  if (desc.role == registry::Role::router && desc.shape.ndim() == 2) routers_.push_back(param);
}

void HostOptions::note_product(Tensor y, const Matrices::Product& product) {
  matrices_.note_product(y, product);
}

Tensor HostOptions::linear_input(Tensor x, Tensor weight) {
  if (!feed_forward_.is_last(weight)) return x;
  has_.feed_forward = true;
  const Tensor hidden = feed_forward_.hidden(x, weight);
  return options_.dropout > 0 ? without_channels(hidden) : hidden;
}

std::vector<Tensor> HostOptions::inputs(const Op& op, std::span<const Tensor> given) {
  return attention_inputs_.of(op, given);
}

registry::NamedAttrs HostOptions::attrs(const Op& op, std::span<const Tensor> inputs,
                                        const registry::NamedAttrs& given) {
  has_.attention |= is_attention(op);
  has_.rotations |= op.code == OpCode::rope;
  const bool of_heads = op.code == OpCode::attention;
  if (is_attention(op) && !of_heads &&
      (options_.attention_kind != AttentionKind::declared || options_.moba_chunk > 0))
    throw RefusedOption{
        {fmt::format("model.{}",
                     options_.moba_chunk > 0 ? config::kMobaChunk : config::kAttentionType),
         fmt::format("the attention of this model is {}, which chooses its keys itself", op.name),
         {"leave it out"}}};
  if (is_attention(op) && !of_heads && options_.rotary_share < 1)
    throw RefusedOption{
        {fmt::format("model.{}", config::kRotaryShare),
         fmt::format("the attention of this model is {}, whose keys have a part that rotates and "
                     "one that does not",
                     op.name),
         {"leave it out"}}};
  if (options_.attention_kind != AttentionKind::declared && of_heads)
    return options_.attention_cap != 0 ? capped(of_kind(given)) : of_kind(given);
  if (options_.attention_cap != 0 && is_attention(op)) return capped(given);
  if (op.code != OpCode::rope) return given;
  const bool stretches = options_.min_timescale != 1 || options_.linear_scaling != 1;
  const registry::NamedAttrs out = stretches ? stretched(op, inputs, given) : given;
  return options_.rotary_share < 1 ? partial(inputs, out) : out;
}

registry::NamedAttrs HostOptions::partial(std::span<const Tensor> inputs,
                                          const registry::NamedAttrs& given) const {
  const auto refuse = [](std::string why) {
    throw RefusedOption{
        {fmt::format("model.{}", config::kRotaryShare), std::move(why), {"leave it out"}}};
  };
  const auto says = [&](std::string_view attr, const AttrValue& nothing) {
    return std::ranges::any_of(
        given, [&](const auto& has) { return has.first == attr && has.second != nothing; });
  };
  const AttrValue zero = std::int64_t{0};
  if (says("rotary_dim", zero) || says("frequency_dim", zero) ||
      says("mrope_section", std::vector<std::int64_t>{}) || (inputs.size() > 2 && inputs[2]))
    refuse("this model says itself what part of a head rotates, and how");
  const Tensor x = inputs[0];
  const auto width = static_cast<double>(x.dim(3));
  const auto rotary = static_cast<std::int64_t>(width * options_.rotary_share);
  if (rotary == 0 || rotary % 2 != 0)
    refuse(fmt::format("{} of {} channels of a head would rotate; pairs do, at least one", rotary,
                       x.dim(3)));
  registry::NamedAttrs out = given;
  std::erase_if(out, [](const auto& attr) { return attr.first == "rotary_dim"; });
  out.emplace_back("rotary_dim", rotary);
  return out;
}

registry::NamedAttrs HostOptions::of_kind(const registry::NamedAttrs& given) const {
  const AttentionKind kind = options_.attention_kind;
  registry::NamedAttrs out = given;
  std::erase_if(out, [](const auto& attr) {
    return attr.first == "window" || attr.first == "chunk" || attr.first == "causal";
  });
  const auto span = [&](AttentionKind of) { return kind == of ? options_.attention_span : 0; };
  out.emplace_back("window", span(AttentionKind::sliding));
  out.emplace_back("chunk", span(AttentionKind::chunk));
  out.emplace_back("causal", std::int64_t{kind != AttentionKind::full});
  return out;
}

bool HostOptions::chooses_experts(const Op& op, std::span<const Tensor> inputs) {
  if (!options_.random_routing || op.code != OpCode::top_k) return false;
  const std::int64_t choices = inputs[0].dim(-1);  // groups of experts are fewer
  const bool chooses = std::ranges::any_of(routers_, [&](Tensor router) {
    return router.dim(0) == choices && depends_on(inputs[0], router);
  });
  has_.router |= chooses;
  return chooses;
}

bool HostOptions::chooses_chunks(const Op& op, std::span<const Tensor> inputs,
                                 const registry::NamedAttrs& attrs) const {
  if (options_.moba_chunk == 0 || op.code != OpCode::attention) return false;
  const auto refuse = [](const char* why) {
    throw RefusedOption{{fmt::format("model.{}", config::kMobaChunk), why, {"leave it out"}}};
  };
  if (!inputs[1]) refuse("a layer of this model reads the keys of another");
  for (const auto& [name, value] : attrs)
    if (name == "chunk" && value != AttrValue(std::int64_t{0}))
      refuse("a layer of this model sees the chunk of its token alone");
  if (inputs.size() > 4 && inputs[4]) refuse("the attention of this model has a mask of its own");
  return true;
}

std::int64_t HostOptions::block_tokens(const Op& op, std::span<const Tensor> inputs) const {
  if (options_.attention_kind != AttentionKind::blocks || op.code != OpCode::attention) return 0;
  if (inputs.size() > 5 && inputs[5])
    throw RefusedOption{{fmt::format("model.{}", config::kAttentionType),
                         "the attention of this model has blocks of its own",
                         {"leave it out"}}};
  return options_.attention_span;
}

registry::StateDesc HostOptions::state(const Op& op, const registry::StateDesc& declared,
                                       const registry::NamedAttrs& attrs) const {
  registry::StateDesc out = declared;
  const bool chooses = options_.moba_chunk > 0;
  if (op.code != OpCode::attention ||
      !(chooses || options_.attention_kind != AttentionKind::declared))
    return out;
  const auto number = [&](std::string_view name) {
    for (const auto& [known, value] : attrs)
      if (known == name && !chooses) return std::get<std::int64_t>(value);
    return std::int64_t{0};
  };
  out.window = number("window");
  out.chunk = number("chunk");
  return out;
}

registry::NamedAttrs HostOptions::capped(const registry::NamedAttrs& given) const {
  registry::NamedAttrs out = given;
  std::erase_if(out, [](const auto& attr) {
    if (attr.first != "soft_cap") return false;
    if (std::get<double>(attr.second) != 0)
      throw RefusedOption{{fmt::format("model.{}", config::kAttentionCap),
                           "the attention of this model has a soft cap of its own",
                           {"leave it out"}}};
    return true;
  });
  out.emplace_back("soft_cap", options_.attention_cap);
  return out;
}

// Angles are position / (linear * m * (theta / m)^(2 i / dims)): those of another theta, scaled
// linearly.
registry::NamedAttrs HostOptions::stretched(const Op& op, std::span<const Tensor> inputs,
                                            const registry::NamedAttrs& given) const {
  registry::NamedAttrs out = given;
  const auto value = [&](std::string_view name) -> AttrValue& {
    for (auto& [known, attr] : out)
      if (known == name) return attr;
    out.emplace_back(name, op.attrs[static_cast<std::size_t>(op.attr_index(name))].fallback);
    return out.back().second;
  };
  const std::string scaling = std::get<std::string>(value("scaling"));
  const bool has_frequencies = inputs.size() > 2 && inputs[2];
  if (has_frequencies || (scaling != "none" && scaling != "linear"))
    throw RefusedOption{
        {fmt::format("model.{}",
                     options_.min_timescale != 1 ? config::kMinTimescale : config::kLinearScaling),
         fmt::format("goes with rotations that are scaled linearly or not at all; this model's {}",
                     has_frequencies ? "have frequencies of their own" : "are " + scaling),
         {"leave it out"}}};
  const double factor = scaling == "linear" ? std::get<double>(value("factor")) : 1;
  value("theta") = std::get<double>(value("theta")) / options_.min_timescale;
  value("scaling") = std::string("linear");
  value("factor") = factor * options_.min_timescale * options_.linear_scaling;
  return out;
}

std::vector<Tensor> HostOptions::results(std::vector<Tensor> results) const {
  if (options_.attention_dropout == 0 || results.empty()) return results;
  const std::size_t count = results.size();
  Graph& graph = *results[0].graph;
  const auto made_by = [&] { return graph.node(graph.value(results[0].id).node); };
  Node node = made_by();
  if (!is_attention(*node.op)) return results;
  const auto drop = [this](Tensor p) { return draw_(p, options_.attention_dropout); };
  while (node.op->code != OpCode::attention) {  // another kind becomes one
    results = with_lower_call(graph, node,
                              [&](const LowerCall& call) { return node.op->def->lower(call); });
    node = made_by();
  }
  results =
      with_lower_call(graph, node, [&](const LowerCall& call) { return ops::attend(call, drop); });
  results.resize(count);  // latent attention has no log-sum-exp
  return results;
}

std::vector<Tensor> HostOptions::of_layer(Tensor input, std::vector<Tensor> results) const {
  if (options_.dropout == 0 || options_.layer_dropout == LayerDropout::none) return results;
  const Tensor x = results[0];
  const Tensor left = options_.layer_dropout == LayerDropout::output
                          ? without_channels(x)
                          : input + without_channels(x - input);
  for (Tensor& result : results)
    if (result.id == x.id) result = left;
  return results;
}

Tensor HostOptions::without_channels(Tensor x) const {
  return drop_channels(x, [this](Tensor ones) { return draw_(ones, options_.dropout); });
}

}  // namespace lamina::decoder
