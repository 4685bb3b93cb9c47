// custom(operands...; body): an op of a plugin, defined by its body. See ops/custom.h.
#include "ops/custom.h"

#include "graph/rewrite.h"
#include "ops/op.h"
#include "ops/required_flops.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Graph& body = *c.body("body");
  std::size_t next = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has(i)) continue;
    c.require(next < body.inputs().size(), "has more operands than its body, which takes {}",
              body.inputs().size());
    const Type& wanted = body.type(body.inputs()[next++].value);
    c.require(c.type(i) == wanted, "{} must be {}, got {}", c.input_name(i), to_string(wanted),
              to_string(c.type(i)));
  }
  c.require(next == body.inputs().size(), "has {} operands, but its body takes {}", next,
            body.inputs().size());
  std::vector<Type> out;
  for (const GraphOutput& output : body.outputs()) out.push_back(body.type(output.value));
  return out;
}

std::vector<Tensor> present(std::span<const Tensor> operands) {
  std::vector<Tensor> out;
  for (const Tensor& operand : operands)
    if (operand) out.push_back(operand);
  return out;
}

// The first input of a row is always present.
std::vector<Tensor> lower(const LowerCall& c) {
  const std::vector<Tensor> operands = present(c.ins());
  return inline_graph(*c.body("body"), *operands.front().graph, operands);
}

double flops(const NodeView& n, const WorkContext& context) {
  return required_flops(*n.body("body"), context.start);
}

void tokens(TokenFlow& flow) {
  const Graph& body = *flow.node.body("body");
  GraphFlow inside(body);
  std::size_t next = 0;
  for (int i = 0; i < flow.node.num_inputs(); ++i) flow.read_places(i);  // the body is analysed
  for (const Extents* input : flow.inputs)
    if (input) inside.at(body.inputs()[next++].value).extents = *input;
  inside.run();
  for (const GraphOutput& output : body.outputs()) {
    const GraphFlow::Followed& result = inside.at(output.value);
    if (flow.mixes.empty()) flow.mixes = result.mixes;
    flow.outputs.push_back(result.extents);
  }
}

constexpr OpCost kCost{.flops = flops};
constexpr OpSplit kSplit{.none = "the ops of its body are split in its place"};

// For ops without any kernel, which are only a name.
constexpr OpDef kPlain = {.infer = infer,
                          .lower = lower,
                          .always_lower = true,
                          .decode = &kEachToken,
                          .cost = kCost,
                          .split = kSplit,
                          .tokens = tokens};

}  // namespace

// Decode forms are in its body, which is traced for each phase.
constinit const OpDef custom_op = {.infer = infer,
                                   .lower = lower,
                                   .decode = &kEachToken,
                                   .cost = kCost,
                                   .split = kSplit,
                                   .tokens = tokens};

void complete(CustomOp& op, bool is_gradient, bool plain) {
  op.code = OpCode::custom;
  op.def = plain ? &kPlain : &custom_op;
  op.num_inputs = op.inputs.size();
  op.num_outputs = op.outputs.size();
  op.num_plugin_inputs = op.inputs.size();
  op.num_plugin_attrs = op.attrs.size();
  const auto add = [&](std::string name) {
    op.inputs.push_back({.name = std::move(name), .optional = true});
  };
  add("positions");
  add("segments");
  if (is_gradient) {
    for (OpInput& input : op.inputs) input.optional = true;
    for (const OpInput& output : op.outputs) add(output.name);
    for (const OpInput& output : op.outputs) add("d" + output.name);
    std::vector<OpInput> gradients;
    for (std::size_t i = 0; i < op.num_inputs; ++i) gradients.push_back({"d" + op.inputs[i].name});
    op.outputs = std::move(gradients);
  } else {
    add("start");
    add("count");
    op.inputs.push_back({.name = "states", .variadic = true});
    op.outputs.push_back({.name = "states", .variadic = true});
  }
  op.attrs.push_back(
      {.name = "body", .fallback = std::shared_ptr<const Graph>{}, .required = true});
}

Graph inline_custom(const Graph& graph) {
  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  for (const Node& node : graph.nodes()) {
    if (node.op->code == OpCode::custom) {
      const std::vector<Tensor> results =
          inline_graph(inline_custom(*node.body()), out, present(copy.operands(node)));
      for (std::size_t i = 0; i < results.size(); ++i) copy.set(node.outputs[i], results[i]);
    } else if (node.op->code == OpCode::scan) {
      Node changed = node;
      changed.set_attr("body", std::make_shared<const Graph>(inline_custom(*node.body())));
      copy.node(changed);
    } else {
      copy.node(node);
    }
  }
  copy.outputs();
  return out;
}

}  // namespace lamina::ops
