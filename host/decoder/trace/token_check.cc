#include "decoder/trace/token_check.h"

#include <algorithm>

#include "core/error.h"
#include "ops/token_flow.h"

namespace lamina::decoder {
namespace {

using ops::Counted;
using ops::Extents;

// Returns the token dims of a type whose dims `at` and at + 1 are [B, T].
Extents with_tokens(const Type& type, const TracePhase& phase, std::size_t at = 0) {
  Extents out = ops::extents_of(type, Counted::other);
  out[at] = ops::dim_of(Counted::batch, phase.batch);
  out[at + 1] = ops::dim_of(Counted::tokens, phase.tokens);
  return out;
}

// [B, T, ...], [3, B, T] or without tokens.
Extents of_host_input(Input role, const Type& type, const TracePhase& phase) {
  if (role == Input::positions_3d) return with_tokens(type, phase, 1);
  if (type.ndim() < 2) return ops::extents_of(type, Counted::other);
  return with_tokens(type, phase);
}

struct Followed {
  Extents extents;
  int mixed_by = -1;  // index into the findings; -1: by nothing
};

struct Finding {
  const Node* node;
  std::string what;
};

class Follower {
 public:
  Follower(const BlockUse& use, const BlockGraph& block, const TracePhase& phase,
           const TokensOfCarries& given)
      : graph_(block.graph) {
    values_.resize(graph_.values().size());
    for (const GraphInput& input : graph_.inputs())
      at(input.value).extents = ops::extents_of(graph_.type(input.value), Counted::other);
    std::vector<Extents> first = given.carries;
    if (use.kind == BlockUse::Kind::mtp) {
      if (!use.carries) first[0] = tokens_of_activations(phase);
      first.resize(1);
      first.push_back(tokens_of_activations(phase));
    }
    if (use.kind == BlockUse::Kind::layer)
      first.insert(first.end(), given.per_layer.begin(), given.per_layer.end());
    if (use.kind == BlockUse::Kind::entry) first = {tokens_of_activations(phase)};
    for (std::size_t i = 0; i < first.size(); ++i) input(i).extents = std::move(first[i]);
    if (const auto& kv = block.taken_kv)
      for (const int at : {kv->k_at, kv->v_at}) input(at).extents = with_tokens(type_of(at), phase);
    for (const BlockGraph::HostInput& host : block.host_inputs)
      input(host.input).extents = of_host_input(host.role, type_of(host.input), phase);
    for (const Node& node : graph_.nodes()) follow(node);
  }

  // Returns the op that mixed the tokens of output `index`; null for none.
  const Finding* of_output(int index) const {
    const GraphOutput& output = graph_.outputs()[static_cast<std::size_t>(index)];
    const int found = values_[output.value].mixed_by;
    return found < 0 ? nullptr : &findings_[static_cast<std::size_t>(found)];
  }
  const Extents& extents_of_output(int index) const {
    return values_[graph_.outputs()[static_cast<std::size_t>(index)].value].extents;
  }

 private:
  Followed& at(ValueId value) { return values_[value]; }
  template <typename Index>
  Followed& input(Index i) {
    return at(graph_.inputs()[static_cast<std::size_t>(i)].value);
  }
  const Type& type_of(int i) const {
    return graph_.type(graph_.inputs()[static_cast<std::size_t>(i)].value);
  }

  void follow(const Node& node) {
    std::vector<const Extents*> inputs;
    int mixed_by = -1;
    for (ValueId value : node.inputs) {
      inputs.push_back(value == kNoValue ? nullptr : &at(value).extents);
      if (value != kNoValue && mixed_by < 0) mixed_by = at(value).mixed_by;
    }
    with_node_view(graph_, node, [&](const NodeView& view) {
      ops::TokenFlow flow{.node = view, .inputs = std::move(inputs)};
      ops::follow_tokens(flow);
      if (mixed_by < 0 && !flow.mixes.empty()) {
        mixed_by = static_cast<int>(findings_.size());
        findings_.push_back({&node, flow.mixes});
      }
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        at(node.outputs[i]) = {std::move(flow.outputs[i]), mixed_by};
    });
  }

  const Graph& graph_;
  std::vector<Followed> values_;
  std::vector<Finding> findings_;
};

[[noreturn]] void fail(const BlockUse& use, const Finding& finding,
                       const registry::Family& family) {
  const registry::PluginIdentity& plugin = family.plugin();
  std::vector<std::string> notes;
  if (finding.node->origin) notes.push_back(to_string(*finding.node->origin));
  notes.push_back(fmt::format("plugin '{}' {}", plugin.id, plugin.version));
  notes.push_back(
      "a block sees other tokens only through step.attend, step.latent_attention, "
      "step.gated_delta_rule, step.matrix_scan, step.linear_scan, step.causal_conv1d, "
      "step.previous "
      "(a token shift), step.scan_tokens (any recurrence) and the other functions of step that "
      "keep decode state; the place of a token is step.positions_BT (M-12 of "
      "docs/plugin_requirements.md)");
  throw PluginError(
      {fmt::format("block '{}' of family '{}'", family.block(use.block).name, family.name()),
       fmt::format("{} {}; decoding, where a call has a part of the tokens, would compute another "
                   "model than training",
                   finding.node->op->name, finding.what),
       std::move(notes)});
}

}  // namespace

Extents tokens_of_activations(const TracePhase& phase) {
  return with_tokens(phase.activations(), phase);
}

std::vector<Extents> check_tokens_apart(const BlockUse& use, const BlockGraph& block,
                                        const TracePhase& phase, const TokensOfCarries& given,
                                        const registry::Family& family) {
  const Follower follower(use, block, phase, given);
  std::vector<int> outputs;
  for (std::size_t i = 0; i < block.num_results; ++i) outputs.push_back(static_cast<int>(i));
  if (block.donated_kv)
    outputs.insert(outputs.end(), {block.donated_kv->k_at, block.donated_kv->v_at});
  for (int output : outputs)
    if (const Finding* finding = follower.of_output(output)) fail(use, *finding, family);
  std::vector<Extents> out;
  for (std::size_t i = 0; i < block.num_results; ++i)
    out.push_back(follower.extents_of_output(static_cast<int>(i)));
  return out;
}

}  // namespace lamina::decoder
