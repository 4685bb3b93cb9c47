#include "train/optimizer/fused_adamw.h"

#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::train {
namespace {

void add_whole(Graph& graph, const FusedAdamw& kind, const config::OptimizerSection& config) {
  const int first = static_cast<int>(graph.inputs().size());
  const std::int64_t elements = kind.rows * kind.width;
  namespace in = operand::adamw;
  auto flat = [&](const char* name) { return graph.add_input(name, {DType::f32, {elements}, {}}); };
  const ops::AdamwInputs inputs{.p = flat("p"),
                                .g = flat("g"),
                                .m = flat("m"),
                                .v = flat("v"),
                                .scalars = graph.add_input("scalars", {DType::f32, {5}, {}})};
  const auto results = ops::adamw(inputs, {.beta1 = config.beta1,
                                           .beta2 = config.beta2,
                                           .eps = config.eps,
                                           .weight_decay = kind.weight_decay,
                                           .copy = kind.copy});
  graph.add_output("p", results.p_out, first + in::kP);
  graph.add_output("m", results.m_out, first + in::kM);
  graph.add_output("v", results.v_out, first + in::kV);
  if (kind.copy) graph.add_output("copy", results.copy);
}

void add_rows(Graph& graph, const FusedAdamw& kind, const config::OptimizerSection& config) {
  const int first = static_cast<int>(graph.inputs().size());
  const auto& [rows, width, slots, weight_decay, copy] = kind;
  namespace in = operand::adamw_rows;
  auto table = [&](const char* name) {
    return graph.add_input(name, {DType::f32, {rows, width}, {}});
  };
  ops::AdamwRowsInputs inputs{.p = table("p"),
                              .ids = graph.add_input("ids", {DType::i32, {slots}, {}}),
                              .g = graph.add_input("g", {DType::f32, {slots, width}, {}}),
                              .m = table("m"),
                              .v = table("v"),
                              .scalars = graph.add_input("scalars", {DType::f32, {5}, {}})};
  if (copy) inputs.copy = graph.add_input("copy", {DType::bf16, {rows, width}, {}});
  const auto results = ops::adamw_rows(inputs, {.beta1 = config.beta1,
                                                .beta2 = config.beta2,
                                                .eps = config.eps,
                                                .weight_decay = weight_decay,
                                                .lazy = config.lazy_embeddings});
  graph.add_output("p", results.p_out, first + in::kP);
  graph.add_output("m", results.m_out, first + in::kM);
  graph.add_output("v", results.v_out, first + in::kV);
  if (copy) graph.add_output("copy", results.copy_out, first + in::kCopy);
}

}  // namespace

Graph fused_adamw_graph(std::span<const FusedAdamw> kinds, const config::OptimizerSection& config) {
  Graph graph;
  for (const FusedAdamw& kind : kinds)
    kind.slots > 0 ? add_rows(graph, kind, config) : add_whole(graph, kind, config);
  return graph;
}

}  // namespace lamina::train
