// fused_map(operands...; body): a chain of elementwise ops in one pass over memory. Each op of the
// body rounds to its dtype, so results are bit-identical.
#include "graph/rewrite.h"
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Graph& body = *c.body("body");
  c.require(static_cast<std::size_t>(c.num_inputs()) == body.inputs().size(),
            "has {} operands, but its body takes {}", c.num_inputs(), body.inputs().size());
  for (int i = 0; i < c.num_inputs(); ++i)
    c.require(c.type(i) == body.type(body.inputs()[static_cast<std::size_t>(i)].value),
              "{} is {}, but its body takes {}", c.input_name(i), to_string(c.type(i)),
              to_string(body.type(body.inputs()[static_cast<std::size_t>(i)].value)));
  std::vector<Type> out;
  for (const GraphOutput& output : body.outputs()) out.push_back(body.type(output.value));
  return out;
}

std::vector<Tensor> lower(const LowerCall& c) {
  std::vector<Tensor> operands(c.ins().begin(), c.ins().end());
  return inline_graph(*c.body("body"), *operands.front().graph, operands);
}

}  // namespace

constinit const OpDef fused_map_op = {
    .infer = infer,
    .lower = lower,
    .decode = &kEachToken,
    .cost = kNoProducts,
    .split = {.none = "it consists of elementwise ops that are already split"}};

}  // namespace lamina::ops
