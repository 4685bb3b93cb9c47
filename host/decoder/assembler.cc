#include "decoder/assembler.h"

#include "graph/rewrite.h"

namespace lamina::decoder {
namespace {

bool per_layer(Role role) { return role == Role::layer_index || role == Role::layer_constant; }

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::tokens:
      return "tokens";
    case Role::positions:
      return "positions";
    case Role::segments:
      return "segments";
    case Role::labels:
      return "labels";
    case Role::loss_scale:
      return "loss_scale";
    case Role::z_loss_scale:
      return "z_loss_scale";
    case Role::seed:
      return "seed";
    case Role::start:
      return "start";
    case Role::rows:
      return "rows";
    case Role::layer_index:
      return "layer_index";
    case Role::layer_constant:
      return "layer_constant";
    default:
      return "value";
  }
}

// A segment becomes a scan: consts are the host's inputs, the carry is the activations, xs are
// parameters, decode state and per-layer constants of every position of the unit.
Tensor Assembler::segment(Tensor x, std::size_t index, bool hidden) {
  const StackSegment& segment = stack_.segments[index];
  std::vector<const BlockGraph*> unit;
  for (const registry::PositionSpec& position : segment.unit)
    unit.push_back(&blocks_.get(position));

  auto body = std::make_shared<Graph>();
  std::map<Role, Tensor> inner_consts;
  std::vector<Tensor> consts, xs;  // operands outside
  for (const BlockGraph* block : unit)
    for (const BlockGraph::HostInput& input : block->host_inputs)
      if (!per_layer(input.role) && !inner_consts.contains(input.role)) {
        Tensor outer = host_input(input.role);
        inner_consts[input.role] =
            body->add_input(std::string(role_name(input.role)), outer.type());
        consts.push_back(outer);
      }
  Tensor inner_x = body->add_input("x", x.type());

  auto add_x = [&](std::string name, Type inner, InputRole role) {
    Type outer = inner.with(inner.shape.with_leading(segment.times));
    role.stacked = true;
    out_.inputs.push_back(std::move(role));
    xs.push_back(graph().add_input(fmt::format("segment {}: {}", index, name), outer));
    return body->add_input(std::move(name), inner);
  };

  struct Written {
    int outer_input;  // of the model graph
    int inner_input;
    Tensor value;
    std::string name;
  };
  std::vector<Written> written;
  std::vector<std::pair<Tensor, std::vector<std::int64_t>>> hidden_of;
  for (std::size_t p = 0; p < unit.size(); ++p) {
    const BlockGraph& block = *unit[p];
    std::vector<Tensor> inputs(block.graph.inputs().size());
    inputs[0] = inner_x;
    std::string prefix = unit.size() > 1 ? fmt::format("{}.", p) : "";
    std::vector<std::int64_t> layers = segment.layers_at(p);
    for (const BlockGraph::HostInput& input : block.host_inputs) {
      if (!per_layer(input.role)) {
        inputs[static_cast<std::size_t>(input.input)] = inner_consts.at(input.role);
        continue;
      }
      const GraphInput& declared = block.graph.inputs()[static_cast<std::size_t>(input.input)];
      InputRole role{input.role, {}, true, {}};
      for (std::int64_t layer : layers)
        role.values.push_back(input.role == Role::layer_index
                                  ? static_cast<double>(layer)
                                  : input.values[static_cast<std::size_t>(layer)]);
      inputs[static_cast<std::size_t>(input.input)] =
          add_x(prefix + declared.name, block.graph.type(declared.value), std::move(role));
    }
    for (const BlockGraph::Param& param : block.params) {
      InputRole role{Role::parameter, {}, true, {}};
      for (std::int64_t layer : layers)
        role.members.push_back(
            parameters_.find(fmt::format("layers.{}.{}", layer, param.desc.name)));
      const Parameter& first = parameters_[role.members.front()];
      inputs[static_cast<std::size_t>(param.input)] =
          add_x(prefix + param.desc.name, param_type(param.desc, first), std::move(role));
    }
    std::vector<int> state_inputs;
    for (const BlockGraph::State& state : block.states) {
      InputRole role{Role::state, {}, true, {}};
      for (std::size_t i = 0; i < layers.size(); ++i) role.members.push_back(next_state_++);
      state_inputs.push_back(static_cast<int>(out_.inputs.size()));
      inputs[static_cast<std::size_t>(state.input)] =
          add_x(prefix + state.name, state.type, std::move(role));
    }
    std::vector<Tensor> results = inline_graph(block.graph, *body, inputs);
    inner_x = results[0];
    for (std::size_t i = 0; i < block.states.size(); ++i) {
      const BlockGraph::State& state = block.states[i];
      Tensor inner = inputs[static_cast<std::size_t>(state.input)];
      written.push_back({state_inputs[i], static_cast<int>(body->value(inner.id).index),
                         results[static_cast<std::size_t>(state.output)], prefix + state.name});
    }
    if (hidden) hidden_of.emplace_back(inner_x, layers);
  }

  body->add_output("x", inner_x);
  for (const Written& w : written) body->add_output(w.name, w.value, w.inner_input);
  for (const auto& [value, layers] : hidden_of) body->add_output("hidden", value);

  // Layers that are unrolled from one segment have equal bodies: one object, compiled once.
  std::shared_ptr<const Graph> shared = body;
  for (const auto& [text, known] : bodies_)
    if (same_graph(*known, *body)) shared = known;
  if (shared == body) bodies_.emplace(fmt::format("{}", index), shared);

  std::vector<Tensor> operands = consts;
  operands.push_back(x);
  operands.insert(operands.end(), xs.begin(), xs.end());
  std::vector<Tensor> results =
      ops::call_all("scan", operands,
                    std::vector<std::pair<std::string_view, AttrValue>>{
                        {"body", shared},
                        {"times", segment.times},
                        {"num_consts", static_cast<std::int64_t>(consts.size())},
                        {"num_carries", std::int64_t{1}}});
  for (std::size_t i = 0; i < written.size(); ++i) {
    OutputRole role{Role::state, written[i].outer_input, {}, true};
    add_output(written[i].name, results[1 + i], std::move(role), written[i].outer_input);
  }
  for (std::size_t i = 0; i < hidden_of.size(); ++i)
    add_hidden(fmt::format("hidden of segment {}, position {}", index, i),
               results[1 + written.size() + i], hidden_of[i].second, true);
  return results[0];
}

}  // namespace lamina::decoder
