#include "autodiff/scan_transpose.h"

#include <algorithm>
#include <compare>
#include <map>
#include <memory>
#include <string>

#include "autodiff/tags.h"
#include "core/error.h"
#include "graph/placement.h"
#include "graph/rewrite.h"
#include "graph/scan_shape.h"
#include "ops/registry.h"
#include "ops/tensor.h"

namespace lamina::autodiff {
namespace {

Type stacked(const Type& type, std::int64_t times) {
  return type.with(type.shape.with_leading(times));
}

// Identifies a transpose: a body, the partition of its operands, the results with cotangents, and
// the operands whose cotangents are needed.
struct TransposeKey {
  std::shared_ptr<const Graph> body;
  ScanShape shape = {};
  std::vector<bool> flows;   // one per result
  std::vector<bool> wanted;  // one per operand

  friend auto operator<=>(const TransposeKey&, const TransposeKey&) = default;
};

// The source of an operand of the backward scan.
struct Operand {
  enum class Kind {
    input,      // operand `index` of the forward scan
    cotangent,  // cotangent of result `index`
    sum,        // sum of cotangents over layers in sum_dtype(), initially zero
    residual,   // added result `index` of the forward scan
  };
  Kind kind;
  std::size_t index = 0;
};

struct Transpose {
  std::shared_ptr<const Graph> forward;  // the body with residuals as further results
  std::vector<Type> residual_types;      // of one layer
  std::vector<bool> offloaded;           // whether a residual is in host memory
  std::shared_ptr<const Graph> backward;
  std::vector<Operand> operands;               // of the backward scan: consts, carries, xs
  ScanShape shape = {};                        // of the backward scan
  std::vector<std::size_t> operand_of_result;  // the operand whose cotangent each result is
};

// The body followed by its backward pass, in one graph.
struct Joint {
  Graph graph;
  NodeId forward_end = 0;         // nodes below are the body's
  std::vector<Tensor> inputs;     // of the body
  std::vector<Tensor> results;    // of the body
  std::vector<Tensor> seeds;      // cotangents of the results; inputs of the joint graph
  std::vector<Tensor> gradients;  // of the body's inputs; null if not needed

  bool is_forward(ValueId v) const {
    NodeId node = graph.value(v).node;
    return node != kNoNode && node < forward_end;
  }
};

Joint make_joint(const TransposeKey& key, const SavePolicy& save) {
  const Graph& body = *key.body;
  Joint joint;
  Copier copy(body, joint.graph);
  copy.inputs();
  for (const Node& node : body.nodes()) copy.node(node);
  joint.forward_end = static_cast<NodeId>(joint.graph.nodes().size());
  for (const GraphInput& input : body.inputs()) joint.inputs.push_back(copy.get(input.value));
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    Tensor result = copy.get(body.outputs()[i].value);
    joint.results.push_back(result);
    joint.seeds.push_back(key.flows[i]
                              ? joint.graph.add_input("d" + body.outputs()[i].name, result.type())
                              : Tensor{});
  }
  std::vector<Tensor> variables;
  for (std::size_t i = 0; i < key.wanted.size(); ++i)
    if (key.wanted[i]) variables.push_back(joint.inputs[i]);
  std::vector<Tensor> grads =
      vjp(joint.graph, joint.results, joint.seeds, variables, save.on_device());
  joint.gradients.resize(key.wanted.size());
  for (std::size_t i = 0, next = 0; i < key.wanted.size(); ++i)
    if (key.wanted[i]) joint.gradients[i] = grads[next++];
  return joint;
}

// The contents of the backward body: nodes of the joint graph to run or recompute, inputs of the
// body that it reads, and values of the forward pass that are kept for it.
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
  std::vector<std::pair<ValueId, bool>>
      pending;  // value, and whether a view of it asked to keep it
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
      keep = keep || save(tag_of(graph, v));
      // A view is free to recompute: keep its source instead.
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

std::shared_ptr<const Graph> forward_body(const Graph& body, const Joint& joint,
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

// Builds the backward body, and records its operands and results in `out`.
void make_backward(const TransposeKey& key, const Joint& joint, const Partition& parts,
                   std::span<const ValueId> residuals, Transpose& out) {
  using Kind = Operand::Kind;
  auto back = std::make_shared<Graph>();
  Copier copy(joint.graph, *back);
  auto take = [&](std::string name, ValueId inner, Operand operand) {
    copy.set(inner, back->add_input(std::move(name), joint.graph.type(inner)));
    out.operands.push_back(operand);
  };
  auto take_inputs = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i)
      if (parts.inputs[i]) take(key.body->inputs()[i].name, joint.inputs[i].id, {Kind::input, i});
  };
  auto take_cotangents = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i)
      if (joint.seeds[i])
        take("d" + key.body->outputs()[i].name, joint.seeds[i].id, {Kind::cotangent, i});
  };
  take_inputs(0, key.shape.consts);
  out.shape.consts = out.operands.size();
  take_cotangents(0, key.shape.carries);
  std::vector<Tensor> sums;  // of the cotangents of needed consts
  for (std::size_t i = 0; i < key.shape.consts; ++i) {
    if (!joint.gradients[i]) continue;
    const Type& type = joint.gradients[i].type();
    sums.push_back(
        back->add_input("sum of d" + key.body->inputs()[i].name, type.with(sum_dtype(type.dtype))));
    out.operands.push_back({Kind::sum, i});
  }
  out.shape.carries = out.operands.size() - out.shape.consts;
  take_inputs(key.shape.first_x(), joint.inputs.size());
  for (std::size_t r = 0; r < residuals.size(); ++r)
    take("kept " + std::to_string(r), residuals[r], {Kind::residual, r});
  take_cotangents(key.shape.carries, joint.results.size());

  for (NodeId n = 0; n < parts.nodes.size(); ++n)
    if (parts.nodes[n]) copy.node(joint.graph.node(n));

  auto give = [&](std::size_t operand, Tensor value) {
    back->add_output("d" + key.body->inputs()[operand].name, value);
    out.operand_of_result.push_back(operand);
  };
  for (std::size_t k = 0; k < key.shape.carries; ++k) {
    if (!joint.seeds[k]) continue;
    Tensor d = joint.gradients[key.shape.consts + k];
    const Type& type = joint.seeds[k].type();
    give(key.shape.consts + k,
         d ? ops::cast(copy.get(d.id), type.dtype) : ops::constant(*back, type, 0));
  }
  for (std::size_t i = 0, next = 0; i < key.shape.consts; ++i) {
    if (!joint.gradients[i]) continue;
    const Tensor sum = sums[next++];
    give(i, ops::add(sum, ops::cast(copy.get(joint.gradients[i].id), sum.dtype())));
  }
  for (std::size_t i = key.shape.first_x(); i < joint.inputs.size(); ++i)
    if (joint.gradients[i]) give(i, copy.get(joint.gradients[i].id));
  out.backward = std::move(back);
}

Transpose transposed(TransposeKey key, const SavePolicy& save) {
  // Tensors refer to their graph by address, so a joint graph is never moved.
  auto make = [&] { return std::unique_ptr<Joint>(new Joint(make_joint(key, save))); };
  std::unique_ptr<Joint> joint = make();
  // The cotangent of a carry from one layer is the input of the previous layer.
  for (bool settled = false; !settled;) {
    settled = true;
    for (std::size_t k = 0; k < key.shape.carries; ++k)
      if (!key.flows[k] && joint->gradients[key.shape.consts + k])
        key.flows[k] = true, settled = false;
    if (!settled) joint = make();
  }
  Partition parts = partition(*joint, save);
  // Residuals: kept values, and the carries that the backward body reads.
  std::vector<ValueId> residuals = parts.kept;
  for (std::size_t i = key.shape.consts; i < key.shape.first_x(); ++i)
    if (parts.inputs[i]) residuals.push_back(joint->inputs[i].id);
  Transpose out;
  out.forward = forward_body(*key.body, *joint, residuals);
  for (std::size_t r = 0; r < residuals.size(); ++r) {
    out.residual_types.push_back(joint->graph.type(residuals[r]));
    out.offloaded.push_back(r < parts.kept.size()
                                ? save.offloads(tag_of(joint->graph, residuals[r]))
                                : save.offloads_inputs());
  }
  make_backward(key, *joint, parts, residuals, out);
  return out;
}

TransposeKey key_of(const Graph& graph, const Node& scan, std::span<const Tensor> cotangents,
                    const std::vector<bool>& wanted) {
  TransposeKey key{scan.body(), scan_shape(scan), {}, wanted};
  for (std::size_t i = 0; i < cotangents.size(); ++i)
    key.flows.push_back(is_floating(graph.type(scan.outputs[i]).dtype) && cotangents[i]);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    // The cotangent of a carry passes through every layer, even if it is not needed in the end.
    key.wanted[i] =
        (key.shape.is_carried(i) || wanted[i]) && is_floating(graph.type(scan.inputs[i]).dtype);
  }
  return key;
}

}  // namespace

struct ScanTransposer::Known {
  std::map<TransposeKey, Transpose> transposes;
};

ScanTransposer::ScanTransposer(const SavePolicy& save)
    : save_(save), known_(std::make_unique<Known>()) {}

ScanTransposer::~ScanTransposer() = default;

std::vector<Tensor> ScanTransposer::transpose(Graph& graph, NodeId scan_id,
                                              std::span<const Tensor> cotangents,
                                              const std::vector<bool>& wanted) {
  const Node scan = graph.node(scan_id);  // a copy, because the list grows
  const TransposeKey key = key_of(graph, scan, cotangents, wanted);
  auto [at, fresh] = known_->transposes.try_emplace(key);
  if (fresh) at->second = transposed(key, save_);
  const Transpose& t = at->second;

  std::int64_t times = scan.int_attr("times");
  std::vector<Type> residual_types;
  for (const Type& type : t.residual_types) residual_types.push_back(stacked(type, times));
  std::vector<Tensor> residuals = graph.replace_body(scan_id, t.forward, residual_types);
  for (std::size_t r = 0; r < residuals.size(); ++r)
    if (t.offloaded[r]) place_in_host_memory(graph, residuals[r].id);

  std::vector<Tensor> operands;
  for (const Operand& operand : t.operands) {
    const Type& type = t.backward->type(t.backward->inputs()[operands.size()].value);
    switch (operand.kind) {
      case Operand::Kind::input:
        operands.push_back(graph.tensor(scan.inputs[operand.index]));
        break;
      case Operand::Kind::cotangent: {
        Tensor ct = cotangents[operand.index];
        operands.push_back(ct ? ops::cast(ct, type.dtype) : ops::constant(graph, type, 0));
        break;
      }
      case Operand::Kind::sum:
        operands.push_back(ops::constant(graph, type, 0));
        break;
      case Operand::Kind::residual:
        operands.push_back(residuals[operand.index]);
        break;
    }
  }
  auto results = ops::scan(operands, {.body = t.backward,
                                      .times = times,
                                      .num_consts = static_cast<std::int64_t>(t.shape.consts),
                                      .num_carries = static_cast<std::int64_t>(t.shape.carries),
                                      .reverse = scan.int_attr("reverse") == 0});
  std::vector<Tensor> out(scan.inputs.size());
  for (std::size_t r = 0; r < results.size(); ++r) out[t.operand_of_result[r]] = results[r];
  return out;
}

}  // namespace lamina::autodiff
