#include "graph/graph.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/error.h"
#include "graph/call.h"

namespace lamina {

namespace {

bool same_double(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

bool same_attr(const AttrValue& a, const AttrValue& b) {
  using Body = std::shared_ptr<const Graph>;
  if (a.index() != b.index()) return false;
  if (const double* number = std::get_if<double>(&a))
    return same_double(*number, std::get<double>(b));
  if (const auto* numbers = std::get_if<std::vector<double>>(&a))
    return std::ranges::equal(*numbers, std::get<std::vector<double>>(b), same_double);
  if (const Body* body = std::get_if<Body>(&a)) {
    const Body& other = std::get<Body>(b);
    return *body == other || (*body && other && same_graph(**body, *other));
  }
  return a == b;
}

int Op::attr_index(std::string_view attr) const {
  for (std::size_t i = 0; i < attrs.size(); ++i)
    if (attrs[i].name == attr) return static_cast<int>(i);
  return -1;
}

std::int64_t Node::int_attr(std::string_view name) const {
  return std::get<std::int64_t>(attrs[static_cast<std::size_t>(op->attr_index(name))]);
}

void Node::set_attr(std::string_view name, AttrValue value) {
  attrs = attrs.with(static_cast<std::size_t>(op->attr_index(name)), std::move(value));
}

const std::shared_ptr<const Graph>& Node::body() const {
  return std::get<std::shared_ptr<const Graph>>(
      attrs[static_cast<std::size_t>(op->attr_index("body"))]);
}

std::string to_string(const Origin& origin) {
  std::string out = origin.scope;
  if (!origin.file.empty()) {
    if (!out.empty()) out += ", ";
    out += "built at " + origin.file + ":" + std::to_string(origin.line);
  }
  return out;
}

ValueId Graph::add_value(Type type, NodeId node, std::uint32_t index) {
  values_.push_back({type, node, index, {}});
  return static_cast<ValueId>(values_.size() - 1);
}

Tensor Graph::add_input(std::string name, Type type) {
  ValueId id = add_value(type, kNoNode, static_cast<std::uint32_t>(inputs_.size()));
  inputs_.push_back({std::move(name), id});
  return tensor(id);
}

void Graph::add_output(std::string name, Tensor value, int alias_input) {
  LAMINA_ASSERT(value.graph == this);
  outputs_.push_back({std::move(name), value.id, alias_input});
}

void Graph::set_axes(ValueId id, std::span<const AxisId> axes) {
  std::copy_n(axes.begin(), std::min<std::size_t>(axes.size(), kMaxDims),
              values_[id].type.axes.begin());
}

std::vector<Tensor> Graph::add_node(const Op& op, std::span<const Tensor> inputs,
                                    std::span<const std::pair<std::string_view, AttrValue>> attrs) {
  std::vector<AttrValue> values;
  values.reserve(op.attrs.size());
  for (const OpAttr& attr : op.attrs) values.push_back(attr.fallback);
  std::vector<bool> is_set(op.attrs.size());
  for (const auto& [name, value] : attrs) {
    int index = op.attr_index(name);
    LAMINA_ASSERT(index >= 0);
    LAMINA_ASSERT(value.index() == values[static_cast<std::size_t>(index)].index());
    values[static_cast<std::size_t>(index)] = value;
    is_set[static_cast<std::size_t>(index)] = true;
  }
  for (std::size_t i = 0; i < is_set.size(); ++i) LAMINA_ASSERT(is_set[i] || !op.attrs[i].required);
  return add_node_like({&op, {}, AttrList(std::move(values)), {}, origin_}, inputs);
}

std::vector<Tensor> Graph::add_node_like(const Node& like, std::span<const Tensor> inputs) {
  const Op& op = *like.op;
  std::vector<const Type*> types;
  types.reserve(inputs.size());
  Node node{&op, {}, like.attrs, {}, like.origin};
  for (const Tensor& input : inputs) {
    LAMINA_ASSERT(!input || input.graph == this);
    node.inputs.push_back(input ? input.id : kNoValue);
    types.push_back(input ? &type(input.id) : nullptr);
  }
  const bool variadic = !op.inputs.empty() && op.inputs.back().variadic;
  const std::size_t fixed = op.inputs.size() - (variadic ? 1 : 0);
  while (node.inputs.size() < fixed) {
    node.inputs.push_back(kNoValue);
    types.push_back(nullptr);
  }
  Call call(op, types, node.attrs, node.origin.get());
  call.require(variadic || inputs.size() <= fixed, "takes {} inputs, got {}", fixed, inputs.size());
  for (std::size_t i = 0; i < fixed; ++i)
    call.require(op.inputs[i].optional || call.has(static_cast<int>(i)), "input '{}' is missing",
                 op.inputs[i].name);
  std::vector<Type> results =
      op.def->infer(call);  // types point into values_, which must not grow before this
  NodeId id = static_cast<NodeId>(nodes_.size());
  std::vector<Tensor> out;
  out.reserve(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    node.outputs.push_back(add_value(results[i], id, static_cast<std::uint32_t>(i)));
    out.push_back(tensor(node.outputs.back()));
  }
  nodes_.push_back(std::move(node));
  return out;
}

NodeId Graph::add_copy(const Graph& from, const Node& node, ValueList inputs) {
  NodeId id = static_cast<NodeId>(nodes_.size());
  Node copy{node.op, std::move(inputs), node.attrs, {}, node.origin};
  for (ValueId v : node.outputs) {
    const Value& value = from.value(v);
    copy.outputs.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back({value.type, id, value.index, value.tag});
  }
  nodes_.push_back(std::move(copy));
  return id;
}

std::vector<Tensor> Graph::replace_body(NodeId id, std::shared_ptr<const Graph> body,
                                        std::span<const Type> added_results) {
  nodes_[id].set_attr("body", std::move(body));
  std::vector<Tensor> out;
  for (const Type& type : added_results) {
    ValueId value = add_value(type, id, static_cast<std::uint32_t>(nodes_[id].outputs.size()));
    nodes_[id].outputs.push_back(value);
    out.push_back(tensor(value));
  }
  return out;
}

bool same_graph(const Graph& a, const Graph& b) {
  if (a.nodes().size() != b.nodes().size() || a.values().size() != b.values().size() ||
      a.inputs().size() != b.inputs().size() || a.outputs().size() != b.outputs().size())
    return false;
  for (std::size_t i = 0; i < a.values().size(); ++i)
    if (a.values()[i].type != b.values()[i].type || a.values()[i].tag != b.values()[i].tag)
      return false;
  for (std::size_t i = 0; i < a.inputs().size(); ++i)
    if (a.inputs()[i].value != b.inputs()[i].value) return false;
  for (std::size_t i = 0; i < a.outputs().size(); ++i)
    if (a.outputs()[i].value != b.outputs()[i].value ||
        a.outputs()[i].alias_input != b.outputs()[i].alias_input)
      return false;
  for (std::size_t i = 0; i < a.nodes().size(); ++i) {
    const Node& x = a.nodes()[i];
    const Node& y = b.nodes()[i];
    if (x.op != y.op || x.inputs != y.inputs || x.outputs != y.outputs) return false;
    if (!same_attrs(x.attrs, y.attrs)) return false;
  }
  return true;
}

}  // namespace lamina
