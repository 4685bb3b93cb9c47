#include "decoder/state/custom_call.h"

#include <algorithm>

#include "core/error.h"
#include "decoder/trace/recording.h"
#include "graph/rewrite.h"
#include "ops/state_layout.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

constexpr std::pair<Input, ops::HostInput> kTokenInputs[] = {
    {Input::positions, ops::HostInput::positions},
    {Input::segments, ops::HostInput::segments},
    {Input::start, ops::HostInput::start},
    {Input::count, ops::HostInput::count}};

NodeId end_of(const Graph& graph) { return static_cast<NodeId>(graph.nodes().size()); }

}  // namespace

CustomCall::CustomCall(TracedSoFar trace, std::span<const Tensor> inputs)
    : trace_(trace),
      graph_(trace.block.graph),
      first_state_(trace.block.states.size()),
      first_declared_(trace.declared.size()),
      num_caches_(trace.context.caches.size()),
      donated_before_(trace.donated),
      nodes_{end_of(graph_), 0},
      inputs_(inputs.begin(), inputs.end()) {
  for (const Tensor& input : inputs_) {
    if (!input) {
      stand_ins_.emplace_back();
      continue;
    }
    const Type type = input.type();  // a copy: values move when one is added
    stand_ins_.push_back(ops::constant(graph_, type, 0));
    graph_.set_axes(stand_ins_.back().id, type.axes);
  }
  body_ = end_of(graph_);
}

std::vector<Tensor> CustomCall::end(const ops::CustomOp& op, const registry::NamedAttrs& attrs,
                                    std::span<const Tensor> results) {
  const std::vector<std::size_t> kept = states();
  std::vector<Tensor> wanted(results.begin(), results.end());
  for (std::size_t i : kept) {
    if (!trace_.written[i])
      throw PluginError(
          {"host", fmt::format("state '{}' is never written", trace_.block.states[i].name), {}});
    wanted.push_back(trace_.written[i]);
  }
  if (!trace_.gives_kv) trace_.donated = donated_before_;  // removed values are not used
  const bool donates =
      trace_.donated && (!donated_before_ || donated_before_->k.id != trace_.donated->k.id);
  if (donates) wanted.insert(wanted.end(), {trace_.donated->k, trace_.donated->v});
  const std::vector<Tensor> outside = captured(wanted);
  nodes_.end = end_of(graph_);
  const std::vector<Tensor> made = !donates && is_for_kernels(outside, kept)
                                       ? as_node(op, attrs, outside, kept, wanted)
                                       : as_lowering(outside, wanted);
  std::size_t next = results.size();
  for (std::size_t i : kept) trace_.written[i] = made[next++];
  if (donates) {
    trace_.donated->k = made[next];
    trace_.donated->v = made[next + 1];
  }
  trace_.context.caches.resize(num_caches_);  // caches of removed values
  return {made.begin(), made.begin() + std::ssize(results)};
}

std::vector<std::size_t> CustomCall::states() const {
  std::vector<std::size_t> out;
  for (std::size_t d = first_declared_; d < trace_.declared.size(); ++d)
    for (std::size_t i = first_state_; i < trace_.block.states.size(); ++i) {
      const std::string &name = trace_.block.states[i].name, &declared = trace_.declared[d].name;
      if (name == declared || name.starts_with(declared + ".")) out.push_back(i);
    }
  return out;
}

std::optional<Input> CustomCall::role_of(Tensor input) const {
  for (const BlockGraph::HostInput& known : trace_.block.host_inputs)
    if (known.input == index_of(input)) return known.role;
  return std::nullopt;
}

bool CustomCall::is_for_kernels(std::span<const Tensor> captured,
                                std::span<const std::size_t> states) const {
  const auto& all = trace_.block.states;
  const bool fixed = std::ranges::all_of(states, [&](std::size_t i) {
    return ops::layout_of(all[i].kind) == ops::StateLayout::fixed;
  });
  return fixed && std::ranges::all_of(captured, [&](Tensor input) {
           const std::optional<Input> role = role_of(input);
           const auto is_state = [&](std::size_t i) { return all[i].input == index_of(input); };
           return std::ranges::any_of(kTokenInputs,
                                      [&](auto known) { return known.first == role; }) ||
                  std::ranges::any_of(states, is_state);
         });
}

std::vector<bool> CustomCall::alive(std::span<const Tensor> wanted) const {
  std::vector<bool> needed(graph_.values().size()), out(graph_.nodes().size() - body_);
  for (const Tensor& value : wanted) needed[value.id] = true;
  for (std::size_t i = out.size(); i-- > 0;) {
    const Node& node = graph_.node(body_ + static_cast<NodeId>(i));
    for (ValueId v : node.outputs) out[i] = out[i] || needed[v];
    if (!out[i]) continue;
    for (ValueId v : node.inputs)
      if (v != kNoValue) needed[v] = true;
  }
  return out;
}

std::vector<Tensor> CustomCall::captured(std::span<const Tensor> wanted) const {
  std::vector<Tensor> out;
  const auto look = [&](ValueId v) {
    if (v == kNoValue || graph_.value(v).node != kNoNode) return;
    if (std::ranges::find(out, v, &Tensor::id) == out.end()) out.push_back(graph_.tensor(v));
  };
  const std::vector<bool> live = alive(wanted);
  for (std::size_t i = 0; i < live.size(); ++i)
    if (live[i]) std::ranges::for_each(graph_.node(body_ + static_cast<NodeId>(i)).inputs, look);
  for (const Tensor& value : wanted) look(value.id);
  return out;
}

std::shared_ptr<const Graph> CustomCall::body(std::span<const Tensor> others,
                                              std::span<const Tensor> wanted) const {
  const std::vector<bool> live = alive(wanted);
  auto out = std::make_shared<Graph>();
  Copier copy(graph_, *out);
  for (const Tensor& stand_in : stand_ins_)
    if (stand_in) copy.set(stand_in.id, out->add_input("input", stand_in.type()));
  for (const Tensor& other : others)
    copy.set(other.id,
             out->add_input(graph_.inputs()[graph_.value(other.id).index].name, other.type()));
  for (std::size_t i = 0; i < live.size(); ++i)
    if (live[i]) copy.node(graph_.node(body_ + static_cast<NodeId>(i)));
  for (const Tensor& value : wanted) out->add_output("output", copy.get(value.id));
  return out;
}

// Operands as ops/custom.h says.
std::vector<Tensor> CustomCall::as_node(const ops::CustomOp& op, const registry::NamedAttrs& attrs,
                                        std::span<const Tensor> captured,
                                        std::span<const std::size_t> states,
                                        std::span<const Tensor> wanted) {
  std::vector<Tensor> operands = inputs_, others;
  for (const auto& [role, input] : kTokenInputs) {
    const bool is_read =
        std::ranges::any_of(captured, [&, r = role](Tensor value) { return role_of(value) == r; });
    const bool of_states = role == Input::start || role == Input::count;
    const bool given = is_read || (of_states && !states.empty());
    operands.push_back(given ? trace_.context.host_input(input) : Tensor{});
    if (given) others.push_back(operands.back());
  }
  for (std::size_t i : states) {
    const auto at = static_cast<std::size_t>(trace_.block.states[i].input);
    operands.push_back(graph_.tensor(graph_.inputs()[at].value));
    others.push_back(operands.back());
  }
  registry::NamedAttrs with_body = attrs;
  with_body.emplace_back("body", body(others, wanted));
  return graph_.add_node(op, operands, with_body);
}

std::vector<Tensor> CustomCall::as_lowering(std::span<const Tensor> captured,
                                            std::span<const Tensor> wanted) {
  const std::shared_ptr<const Graph> lowering = body(captured, wanted);
  std::vector<Tensor> operands;
  for (const Tensor& input : inputs_)
    if (input) operands.push_back(input);
  operands.insert(operands.end(), captured.begin(), captured.end());
  return inline_graph(*lowering, graph_, operands);
}

}  // namespace lamina::decoder
