#include "decoder/rewrite/rewriter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "ops/tensor.h"

namespace lamina::decoder {

std::string_view module_of(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == parameter.npos ? std::string_view{} : parameter.substr(0, dot);
}

void refuse_option(std::string key, std::string what, std::string advice) {
  throw UserError(ExitCode::usage, {std::move(key), std::move(what), {std::move(advice)}});
}

Rewriter::Rewriter(Recording& recording, const BlockContext& context)
    : recording_(recording), context_(context), copy_(recording.graph(), to_.graph) {}

void Rewriter::begin() {
  copy_.inputs();
  to_.params = recording_.block.params;
  to_.host_inputs = recording_.block.host_inputs;
}

void Rewriter::enter(NodeId id) {
  while (next_boundary_ < recording_.boundaries.size() &&
         recording_.boundaries[next_boundary_].before <= id)
    pass_boundary();
  to_.graph.set_origin(from().node(id).origin);
}

void Rewriter::pass_boundary() {
  Recording::Boundary boundary = recording_.boundaries[next_boundary_++];
  const bool is_region = recording_.scopes[boundary.scope].is_region();
  (is_region ? num_regions_ : num_customs_) += boundary.ends ? -1 : 1;
  boundary.before = static_cast<NodeId>(to_.graph.nodes().size());
  boundaries_.push_back(boundary);
}

void Rewriter::end() {
  while (next_boundary_ < recording_.boundaries.size()) pass_boundary();
  to_.graph.set_origin(nullptr);
  recording_.replace_graph(std::move(to_.graph), copy_, moved_);
  recording_.block.params = std::move(to_.params);
  recording_.block.host_inputs = std::move(to_.host_inputs);
  recording_.boundaries = std::move(boundaries_);
  recording_.mixing = std::move(mixing_);
  std::ranges::move(added_aux_, std::back_inserter(recording_.aux));
}

void Rewriter::set(ValueId old, Tensor now) {
  copy_.set(old, now);
  const auto& axes = from().type(old).axes;
  if (std::ranges::any_of(axes, [](AxisId axis) { return axis != AxisId{}; }))
    to_.graph.set_axes(now.id, axes);
}

void Rewriter::copy(NodeId id, const Node& like, std::span<const Tensor> operands) {
  ValueList inputs;
  for (const Tensor& operand : operands) inputs.push_back(operand ? operand.id : kNoValue);
  while (inputs.size() < like.inputs.size()) inputs.push_back(kNoValue);
  const NodeId made = to_.graph.add_copy(from(), like, std::move(inputs));
  const Node& node = from().node(id);
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    copy_.set(node.outputs[i], to_.graph.tensor(to_.graph.node(made).outputs[i]));
  if (const auto at = recording_.mixing.find(id); at != recording_.mixing.end())
    mixing_.try_emplace(made, at->second);
}

std::optional<registry::StateDesc>* Rewriter::state(NodeId id) {
  const auto at = recording_.mixing.find(id);
  return at == recording_.mixing.end() ? nullptr : &at->second;
}

void Rewriter::remember(Tensor result, std::optional<registry::StateDesc> state) {
  mixing_[to_.graph.value(result.id).node] = std::move(state);
}

Tensor Rewriter::add_param_beside(const registry::ParamDesc& beside, std::string_view name,
                                  registry::ParamDesc desc) {
  refuse_in_scope();
  const std::string folder(module_of(module_of(beside.name)));
  desc.beside = beside.name;
  desc.name = (folder.empty() ? "" : folder + ".") + std::string(name);
  return add_param(desc);
}

Tensor Rewriter::add_param(const registry::ParamDesc& desc) {
  return decoder::add_param(to_, desc, context_.phase);
}

Tensor Rewriter::host_input(Input role) { return decoder::host_input(to_, role, context_); }

Tensor Rewriter::random(const Shape& shape) {
  const Tensor seed = host_input(Input::seed);
  const Tensor layer = context_.is_layer() ? host_input(Input::layer_index) : Tensor{};
  return ops::random(seed, layer, {.shape = ops::to_list(shape)});
}

Tensor add_dropout(BlockGraph& block, const BlockContext& context, Tensor x, double rate) {
  const Tensor seed = host_input(block, Input::seed, context);
  const Tensor layer =
      context.is_layer() ? host_input(block, Input::layer_index, context) : Tensor{};
  return ops::dropout(x, seed, layer, {.rate = rate});
}

void Rewriter::leave_out(ValueId param) {
  if (const registry::ParamDesc* known = recording_.param(param))
    recording_.left_out.insert(known->name);
}

void Rewriter::add_aux(registry::AuxDesc desc, Tensor value) {
  added_aux_.push_back({std::move(desc), value.id});
}

void Rewriter::refuse_in_scope() const {
  if (!in_region() && !in_custom()) return;
  refuse_option("model",
                fmt::format("queries, keys, values and feed-forwards in {} of this model stay "
                            "unchanged: keys that change them cannot be combined with it",
                            in_region() ? "a region over time" : "a custom op"),
                "remove the keys for norms, shared values and activations");
}

}  // namespace lamina::decoder
