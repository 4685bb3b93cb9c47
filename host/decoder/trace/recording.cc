#include "decoder/trace/recording.h"

#include <algorithm>

#include "core/error.h"
#include "decoder/roles/roles.h"
#include "decoder/stack/parameter.h"
#include "ops/operands.h"

namespace lamina::decoder {
const registry::ParamDesc* Recording::param(ValueId value) const {
  if (value == kNoValue || graph().value(value).node != kNoNode) return nullptr;
  const auto found = std::ranges::find(block.params, static_cast<int>(graph().value(value).index),
                                       &BlockGraph::Param::input);
  return found == block.params.end() ? nullptr : &found->desc;
}

void Recording::replace_graph(Graph graph, const Copier& copy,
                              const std::map<ValueId, ValueId>& moved) {
  const auto map = [&](ValueId& value) {
    if (value != kNoValue) value = copy.get(value).id;
  };
  const auto map_all = [&](std::vector<ValueId>& values) {
    for (ValueId& value : values) map(value);
  };
  for (auto& [tag, value] : records)
    if (const auto at = moved.find(value); at != moved.end())
      value = at->second;
    else
      map(value);
  for (Scope& scope : scopes)
    for (auto* values : {&scope.inputs, &scope.stand_ins, &scope.last, &scope.outside})
      map_all(*values);
  map_all(carries);
  map_all(results);
  map_all(written);
  map_all(stand_ins);
  for (Aux& value : aux) {
    map(value.value);
    map(value.other);
  }
  for (Update& update : updates) map(update.value);
  if (donated)
    for (ValueId* value : {&donated->k, &donated->v}) map(*value);
  block.graph = std::move(graph);
}

std::optional<MatrixProduct> matrix_product(const Graph& graph, ValueId y) {
  namespace in = operand::linear;
  const NodeId id = graph.value(y).node;
  if (id == kNoNode || graph.node(id).op->def->facts.product != Product::rows) return {};
  const Node& node = graph.node(id);
  return MatrixProduct{node.inputs[in::kX], node.inputs[in::kW], node.inputs[in::kBias]};
}

std::vector<Tensor> append_node(Graph& graph, const Op& op, std::span<const Tensor> inputs,
                                const registry::NamedAttrs& attrs, std::span<const Type> results) {
  std::vector<AttrValue> values;
  for (const OpAttr& attr : op.attrs) values.push_back(attr.fallback);
  for (const auto& [name, value] : attrs)
    values[static_cast<std::size_t>(op.attr_index(name))] = value;
  Graph types;  // of the results
  Node node{&op, {}, AttrList(std::move(values)), {}, graph.origin()};
  for (const Type& type : results) node.outputs.push_back(types.add_input("result", type).id);
  ValueList operands;
  for (const Tensor& input : inputs) operands.push_back(input ? input.id : kNoValue);
  while (operands.size() < op.inputs.size()) operands.push_back(kNoValue);
  const NodeId made = graph.add_copy(types, node, std::move(operands));
  std::vector<Tensor> out;
  for (ValueId value : graph.node(made).outputs) out.push_back(graph.tensor(value));
  return out;
}

Tensor add_param(BlockGraph& block, const registry::ParamDesc& desc, const TracePhase& phase) {
  if (std::ranges::any_of(block.params,
                          [&](const BlockGraph::Param& p) { return p.desc.name == desc.name; }))
    throw UserError(ExitCode::usage, {fmt::format("parameter '{}'", desc.name),
                                      "is declared by the block and also added by a [model] key",
                                      {"remove the key"}});
  const Parameter parameter{desc.name, 0, 0, desc};
  const Tensor input =
      block.graph.add_input(desc.name, {parameter.used_dtype(phase.dtype), desc.shape, {}});
  block.graph.set_axes(input.id, desc.axes);
  block.params.push_back({desc, index_of(input)});
  return input;
}

Tensor host_input(BlockGraph& block, Input role, const BlockContext& context) {
  Graph& graph = block.graph;
  for (const BlockGraph::HostInput& known : block.host_inputs)
    if (known.role == role)
      return graph.tensor(graph.inputs()[static_cast<std::size_t>(known.input)].value);
  if (role == Input::layer_index) refuse_outside_layers(context, "the index of the layer");
  const Tensor input =
      graph.add_input(std::string(role_name(role)), host_input_type(role, context.phase));
  block.host_inputs.push_back({role, index_of(input), {}});
  return input;
}

void refuse_outside_layers(const BlockContext& context, std::string_view what) {
  if (context.use.kind == BlockUse::Kind::entry || context.use.kind == BlockUse::Kind::exit)
    throw PluginError(
        {"host",
         fmt::format("{} is only available in layers, and this block is not one", what),
         {}});
}

}  // namespace lamina::decoder
