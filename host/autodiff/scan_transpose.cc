#include "autodiff/scan_transpose.h"

#include <algorithm>
#include <memory>
#include <string>

#include "core/error.h"
#include "graph/rewrite.h"
#include "ops/registry.h"
#include "ops/tensor.h"

namespace lamina::autodiff {
namespace {

Type stacked(const Type& type, std::int64_t times) {
  return type.with(type.shape.with_leading(times));
}

// The body followed by its own backward pass, in one graph.
struct Joint {
  Graph graph;
  NodeId forward_end = 0;         // nodes below are the body's
  std::vector<Tensor> inputs;     // of the body
  std::vector<Tensor> results;    // of the body
  std::vector<Tensor> seeds;      // cotangents of the results; inputs of the joint graph
  std::vector<Tensor> gradients;  // of the body's inputs; null where not wanted

  bool is_forward(ValueId v) const {
    NodeId node = graph.value(v).node;
    return node != kNoNode && node < forward_end;
  }
};

Joint make_joint(const Graph& body, std::size_t num_carries, std::span<const Tensor> cotangents,
                 const std::vector<bool>& wanted, const SavePolicy& save) {
  Joint joint;
  Copier copy(body, joint.graph);
  copy.inputs();
  for (const Node& node : body.nodes()) copy.node(node);
  joint.forward_end = static_cast<NodeId>(joint.graph.nodes().size());
  for (const GraphInput& input : body.inputs()) joint.inputs.push_back(copy.get(input.value));
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    Tensor result = copy.get(body.outputs()[i].value);
    bool flows = is_floating(result.dtype()) && (i < num_carries || cotangents[i]);
    joint.results.push_back(result);
    joint.seeds.push_back(flows ? joint.graph.add_input("d" + body.outputs()[i].name, result.type())
                                : Tensor{});
  }
  std::vector<Tensor> variables;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) variables.push_back(joint.inputs[i]);
  std::vector<Tensor> grads = vjp(joint.graph, joint.results, joint.seeds, variables, save);
  joint.gradients.resize(wanted.size());
  for (std::size_t i = 0, next = 0; i < wanted.size(); ++i)
    if (wanted[i]) joint.gradients[i] = grads[next++];
  return joint;
}

// What the backward body consists of: nodes of the joint graph to run again or for the first time,
// inputs of the body it reads, and values of the forward pass that are kept for it.
struct Partition {
  std::vector<bool> nodes;
  std::vector<bool> inputs;
  std::vector<ValueId> kept;
};

Partition partition(const Joint& joint, const SavePolicy& save) {
  const Graph& graph = joint.graph;
  Partition out;
  out.nodes.assign(graph.nodes().size(), false);
  out.inputs.assign(joint.inputs.size(), false);
  std::vector<bool> seen(graph.values().size());
  std::vector<std::pair<ValueId, bool>> pending;  // value, and whether its view asked to keep it
  auto want = [&](ValueId v, bool keep) {
    if (v != kNoValue && !seen[v]) pending.emplace_back(v, keep);
  };
  for (const Tensor& gradient : joint.gradients)
    if (gradient) want(gradient.id, false);
  while (!pending.empty()) {
    auto [v, keep] = pending.back();
    pending.pop_back();
    if (seen[v]) continue;
    seen[v] = true;
    const Value& value = graph.value(v);
    if (value.node == kNoNode) {
      if (value.index < out.inputs.size()) out.inputs[value.index] = true;
      continue;
    }
    const Node& node = graph.node(value.node);
    bool is_view = node.op->def->view != nullptr;
    if (joint.is_forward(v)) {
      keep = keep || save(value.tag);
      // A view is free to make again: keep what it looks at instead.
      if (keep && !is_view && !node.op->def->zero_gradient) {
        out.kept.push_back(v);
        continue;
      }
    } else {
      keep = false;
    }
    out.nodes[value.node] = true;
    for (ValueId input : node.inputs) want(input, is_view && keep);
  }
  std::ranges::sort(out.kept);
  return out;
}

std::shared_ptr<const Graph> forward_body(const Graph& body, Joint& joint,
                                          std::span<const ValueId> residuals) {
  auto out = std::make_shared<Graph>();
  Copier copy(joint.graph, *out);
  for (std::size_t i = 0; i < joint.inputs.size(); ++i)
    copy.set(joint.inputs[i].id, out->add_input(body.inputs()[i].name, joint.inputs[i].type()));
  for (NodeId n = 0; n < joint.forward_end; ++n) copy.node(joint.graph.node(n));
  for (std::size_t i = 0; i < joint.results.size(); ++i)
    out->add_output(body.outputs()[i].name, copy.get(joint.results[i].id),
                    body.outputs()[i].alias_input);
  for (ValueId v : residuals) {
    const std::string& tag = joint.graph.value(v).tag;
    out->add_output("kept " + (tag.empty() ? std::to_string(v) : tag), copy.get(v));
  }
  return out;
}

}  // namespace

std::vector<Tensor> transpose_scan(Graph& graph, NodeId scan_id, std::span<const Tensor> cotangents,
                                   const std::vector<bool>& wanted_operands,
                                   const SavePolicy& save) {
  const Node scan = graph.node(scan_id);  // a copy: the list grows
  auto body = scan.body();
  std::size_t num_consts = static_cast<std::size_t>(scan.int_attr("num_consts"));
  std::size_t num_carries = static_cast<std::size_t>(scan.int_attr("num_carries"));
  std::size_t first_x = num_consts + num_carries;
  std::int64_t times = scan.int_attr("times");

  // A carry's cotangent passes through every layer, wanted in the end or not.
  std::vector<bool> wanted = wanted_operands;
  for (std::size_t i = num_consts; i < first_x; ++i)
    wanted[i] = is_floating(graph.type(scan.inputs[i]).dtype);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = wanted[i] && is_floating(graph.type(scan.inputs[i]).dtype);

  Joint joint = make_joint(*body, num_carries, cotangents, wanted, save);
  Partition parts = partition(joint, save);

  // Residuals: kept values, and the carries that the backward body reads.
  std::vector<ValueId> residuals = parts.kept;
  for (std::size_t i = num_consts; i < first_x; ++i)
    if (parts.inputs[i]) residuals.push_back(joint.inputs[i].id);
  std::vector<Type> residual_types;
  for (ValueId v : residuals) residual_types.push_back(stacked(joint.graph.type(v), times));
  std::vector<Tensor> kept =
      graph.replace_body(scan_id, forward_body(*body, joint, residuals), residual_types);

  // The backward body. Operands are gathered alongside its inputs: consts, carries, xs.
  auto back = std::make_shared<Graph>();
  Copier copy(joint.graph, *back);
  std::vector<Tensor> operands;
  auto take = [&](std::string name, ValueId inner, Tensor outer) {
    copy.set(inner, back->add_input(std::move(name), joint.graph.type(inner)));
    operands.push_back(outer);
  };
  for (std::size_t i = 0; i < num_consts; ++i)
    if (parts.inputs[i])
      take(body->inputs()[i].name, joint.inputs[i].id, graph.tensor(scan.inputs[i]));
  std::size_t back_consts = operands.size();
  for (std::size_t k = 0; k < num_carries; ++k) {
    if (!joint.seeds[k]) continue;
    Tensor ct = cotangents[k];
    if (!ct) ct = ops::constant(graph, joint.seeds[k].type(), 0);
    take("d" + body->outputs()[k].name, joint.seeds[k].id, ops::cast(ct, joint.seeds[k].dtype()));
  }
  std::vector<Tensor> const_sums;  // running sums of the cotangents of wanted consts
  for (std::size_t i = 0; i < num_consts; ++i) {
    if (!joint.gradients[i]) continue;
    Type type = joint.gradients[i].type();
    const_sums.push_back(back->add_input("sum of d" + body->inputs()[i].name, type));
    operands.push_back(ops::constant(graph, type, 0));
  }
  std::size_t back_carries = operands.size() - back_consts;
  for (std::size_t i = first_x; i < joint.inputs.size(); ++i)
    if (parts.inputs[i])
      take(body->inputs()[i].name, joint.inputs[i].id, graph.tensor(scan.inputs[i]));
  for (std::size_t r = 0; r < residuals.size(); ++r)
    take("kept " + std::to_string(r), residuals[r], kept[r]);
  for (std::size_t j = num_carries; j < joint.results.size(); ++j)
    if (joint.seeds[j])
      take("d" + body->outputs()[j].name, joint.seeds[j].id,
           ops::cast(cotangents[j], joint.seeds[j].dtype()));

  for (NodeId n = 0; n < parts.nodes.size(); ++n)
    if (parts.nodes[n]) copy.node(joint.graph.node(n));

  // Results: carries first, each with what it is the cotangent of.
  std::vector<int> operand_of_result;
  for (std::size_t k = 0; k < num_carries; ++k) {
    if (!joint.seeds[k]) continue;
    Tensor d = joint.gradients[num_consts + k];
    const Type& type = joint.seeds[k].type();
    back->add_output("d" + body->inputs()[num_consts + k].name,
                     d ? ops::cast(copy.get(d.id), type.dtype) : ops::constant(*back, type, 0));
    operand_of_result.push_back(static_cast<int>(num_consts + k));
  }
  for (std::size_t i = 0, next = 0; i < num_consts; ++i) {
    if (!joint.gradients[i]) continue;
    back->add_output("d" + body->inputs()[i].name,
                     ops::add(const_sums[next++], copy.get(joint.gradients[i].id)));
    operand_of_result.push_back(static_cast<int>(i));
  }
  for (std::size_t i = first_x; i < joint.inputs.size(); ++i) {
    if (!joint.gradients[i]) continue;
    back->add_output("d" + body->inputs()[i].name, copy.get(joint.gradients[i].id));
    operand_of_result.push_back(static_cast<int>(i));
  }

  auto results = ops::call_all("scan", operands,
                               std::vector<std::pair<std::string_view, AttrValue>>{
                                   {"body", std::shared_ptr<const Graph>(back)},
                                   {"times", times},
                                   {"num_consts", static_cast<std::int64_t>(back_consts)},
                                   {"num_carries", static_cast<std::int64_t>(back_carries)},
                                   {"reverse", 1 - scan.int_attr("reverse")}});
  std::vector<Tensor> out(scan.inputs.size());
  for (std::size_t r = 0; r < results.size(); ++r)
    out[static_cast<std::size_t>(operand_of_result[r])] = results[r];
  return out;
}

}  // namespace lamina::autodiff
