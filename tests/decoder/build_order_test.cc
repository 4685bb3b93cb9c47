// A block gives the same model for every order in which a compiler evaluates operands.
#include <gtest/gtest.h>

#include "decoder/graph/trace_block.h"
#include "decoder/one_block_family.h"

namespace lamina::decoder {
namespace {

using sdk::Tensor;

BlockGraph traced(Build block) {
  build = block;
  sdk::loading_host = &kHost;
  const sdk::FamilyTables<OneBlockConfig> tables(kFamily);
  const registry::Family family(tables.family(), std::make_shared<registry::PluginIdentity>());
  TracePhase phase{{.batch = 2, .tokens = 3}, {.training = true, .aux = true}, {}};
  phase.hidden_size = 4;
  phase.num_layers = 2;
  phase.carries = {{DType::f32, {2, 3, 4}, {}}};
  return trace_block(family, family.configure({}, "test"), {.block = 1, .overrides = {}}, nullptr,
                     phase);
}

std::string shown(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.nodes()) {
    out += node.op->name;
    if (node.op->name == "dropout") out += std::to_string(node.int_attr("stream"));
    for (ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      const Value& value = graph.value(input);
      out += value.node == kNoNode ? " " + graph.inputs()[value.index].name
                                   : " %" + std::to_string(value.node);
    }
    out += '\n';
    if (node.op->name == "scan") out += "{\n" + shown(*node.body()) + "}\n";
  }
  return out;
}

// The nodes in order with their inputs, then the parameters in order.
std::string shown(const BlockGraph& block) {
  std::string out = shown(block.graph);
  for (const BlockGraph::Param& param : block.params) out += param.desc.name + '\n';
  return out;
}

Tensor branch(sdk::Scope s, Tensor x) { return sdk::dropout(sdk::linear(s, x, 4), 0.5); }

TEST(BuildOrder, LeavesNoTrace) {
  const std::string one = shown(traced(LAMINA_BLOCK({
    Tensor a = branch(s / "a", x);
    Tensor b = branch(s / "b", x);
    step.metric("first", sdk::reduce_sum(a, {.dims = {0, 1, 2}}));
    step.metric("second", sdk::reduce_sum(b, {.dims = {0, 1, 2}}));
    return x + a + b;
  })));
  const std::string other = shown(traced(LAMINA_BLOCK({
    Tensor b = branch(s / "b", x);
    step.metric("second", sdk::reduce_sum(b, {.dims = {0, 1, 2}}));
    Tensor a = branch(s / "a", x);
    step.metric("first", sdk::reduce_sum(a, {.dims = {0, 1, 2}}));
    return x + a + b;
  })));
  EXPECT_EQ(one, other);
  EXPECT_NE(one.find("dropout1 %0"), std::string::npos) << one;
  EXPECT_NE(one.find("a.weight\nb.weight\n"), std::string::npos) << one;
}

Tensor summed(const sdk::Step& step, Tensor x, sdk::TokenResults (*body)(Tensor, Tensor)) {
  return step.scan_tokens({.carries = {{"sum", {x.dim(2)}}}, .inputs = {x}},
                          [&](const sdk::Tensors& carries, const sdk::Tensors& tokens) {
                            return body(carries[0] + sdk::widen(tokens[0]), carries[0]);
                          })[0];
}

TEST(BuildOrder, LeavesNoTraceInTheBodyOfARegion) {
  const std::string one = shown(traced(LAMINA_BLOCK({
    return summed(step, x, [](Tensor sum, Tensor before) -> sdk::TokenResults {
      Tensor a = sdk::tanh(before), b = sdk::sigmoid(sum);
      return {.carries = {sum}, .results = {a * b}};
    });
  })));
  const std::string other = shown(traced(LAMINA_BLOCK({
    return summed(step, x, [](Tensor sum, Tensor before) -> sdk::TokenResults {
      Tensor b = sdk::sigmoid(sum), a = sdk::tanh(before);
      return {.carries = {sum}, .results = {a * b}};
    });
  })));
  EXPECT_EQ(one, other);
  EXPECT_NE(one.find("{\n"), std::string::npos) << one;
}

}  // namespace
}  // namespace lamina::decoder
