#include "train/optimizer/row_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "graph/scan_shape.h"
#include "ops/operands.h"
#include "ops/tensor.h"
#include "runtime/backend.h"

namespace lamina::train {
namespace {

struct RowList {
  Tensor ids, rows;
};

bool is_lookup(const Graph& graph, ValueId v) {
  NodeId node = graph.value(v).node;
  return node != kNoNode && graph.node(node).op->def->sums_rows;
}

// Appends the nodes whose results add up to `v`, in the order in which fuse_residual adds them;
// returns false if `v` has another term.
bool find_lookups(const Graph& graph, ValueId v, std::vector<NodeId>& out) {
  NodeId id = graph.value(v).node;
  if (id == kNoNode) return false;
  const Node& node = graph.node(id);
  if (is_lookup(graph, v)) {
    out.push_back(id);
    return true;
  }
  if (!node.op->def->facts.adds) return false;
  ValueId first = node.inputs[operand::add::kA], last = node.inputs[operand::add::kB];
  if (graph.type(first) != graph.type(last)) return false;
  if (is_lookup(graph, first)) std::swap(first, last);
  return find_lookups(graph, first, out) && find_lookups(graph, last, out);
}

std::optional<RowList> list_lookups(Graph& graph, ValueId v) {
  namespace in = operand::embedding_grad;
  std::vector<NodeId> lookups;
  if (!find_lookups(graph, v, lookups)) return {};
  std::vector<Tensor> ids, rows;
  const DType dtype = graph.type(graph.node(lookups.front()).inputs[in::kDy]).dtype;
  for (NodeId n : lookups) {
    const Node node = graph.node(n);  // a copy: the list grows
    if (node.inputs[in::kAcc] != kNoValue) return {};
    Tensor dy = graph.tensor(node.inputs[in::kDy]);
    if (dy.dtype() != dtype) return {};
    ids.push_back(ops::reshape(graph.tensor(node.inputs[in::kIds]),
                               {graph.type(node.inputs[in::kIds]).num_elements()}));
    rows.push_back(ops::as_rows(dy));
  }
  const Tensor all_ids = ops::joined(ids);
  const auto made = ops::sum_rows(all_ids, ops::joined(rows), {.rows = graph.type(v).dim(0)});
  return RowList{made.sum_ids, made.sums};
}

// As list_lookups(), also if `v` is the result of each round of a scan.
std::optional<RowList> list_rows(Graph& graph, ValueId v) {
  const Value value = graph.value(v);
  if (value.node == kNoNode) return {};
  const Node node = graph.node(value.node);
  if (!node.op->def->facts.loops) return list_lookups(graph, v);
  if (!scan_shape(node).is_stacked(value.index)) return {};  // a sum over rounds
  auto body = std::make_shared<Graph>(*node.body());
  const GraphOutput output = body->outputs()[value.index];
  std::optional<RowList> inner = list_rows(*body, output.value);
  if (!inner) return {};
  const std::int64_t times = node.int_attr("times");
  std::vector<Type> types;
  auto add_result = [&](const char* what, Tensor t) {
    body->add_output(fmt::format("{} of {}", what, output.name), t);
    types.push_back(t.type().with(t.shape().with_leading(times)));
  };
  add_result("ids", inner->ids);
  add_result("rows", inner->rows);
  std::vector<Tensor> added = graph.replace_body(value.node, std::move(body), types);
  return RowList{added[0], added[1]};
}

}  // namespace

decoder::ModelGraph list_table_gradients(decoder::ModelGraph graph) {
  Graph& g = graph.graph;
  std::vector<GraphOutput> outputs = g.outputs();
  for (std::size_t o = 0, whole = outputs.size(); o < whole; ++o) {
    if (graph.outputs[o].role != decoder::Output::gradient) continue;
    std::optional<RowList> list = list_rows(g, outputs[o].value);
    if (!list) continue;
    const std::string name = outputs[o].name;
    outputs[o] = {.name = fmt::format("rows of {}", name), .value = list->rows.id};
    outputs.push_back({.name = fmt::format("ids of {}", name), .value = list->ids.id});
    graph.outputs.push_back(graph.outputs[o]);
    graph.outputs.back().role = decoder::Output::gradient_ids;
  }
  g.set_outputs(std::move(outputs));
  return graph;
}

bool GradientLists::any() const {
  return std::ranges::any_of(microbatch, [](std::int64_t slots) { return slots > 0; });
}

std::size_t GradientLists::num_shared() const {
  return static_cast<std::size_t>(std::ranges::count_if(shared, [](auto at) { return at >= 0; }));
}

GradientLists gradient_lists(const decoder::ModelGraph& graph,
                             const decoder::ParameterTable& parameters, std::int64_t microbatches) {
  GradientLists out;
  out.microbatch.resize(parameters.all().size());
  out.step.resize(parameters.all().size());
  for (std::size_t o = 0; o < graph.outputs.size(); ++o) {
    const decoder::OutputRole& output = graph.outputs[o];
    if (output.role != decoder::Output::gradient_ids) continue;
    const std::int64_t slots = graph.graph.type(graph.graph.outputs()[o].value).dim(-1);
    for (int member : graph.inputs[static_cast<std::size_t>(output.input)].members) {
      const auto i = static_cast<std::size_t>(member);
      out.microbatch[i] = slots;
      out.step[i] = std::min(parameters[member].desc.shape[0], microbatches * slots);
    }
  }
  return out;
}

}  // namespace lamina::train
