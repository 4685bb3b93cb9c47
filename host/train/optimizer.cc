#include "train/optimizer.h"

#include <cmath>

#include "core/error.h"
#include "ops/operands.h"
#include "ops/tensor.h"
#include "program/compile.h"

namespace lamina::train {
namespace {

Graph norm_graph(std::int64_t elements) {
  Graph graph;
  Tensor g = graph.add_input("g", {DType::f32, {elements}, {}});
  graph.add_output("sum", ops::sum_of_squares(g));
  return graph;
}

Graph accumulate_graph(std::int64_t elements) {
  Graph graph;
  Tensor sum = graph.add_input("sum", {DType::f32, {elements}, {}});
  Tensor more = graph.add_input("more", {DType::f32, {elements}, {}});
  graph.add_output("sum", sum + more, 0);
  return graph;
}

Graph add_rows_graph(std::int64_t rows, std::int64_t width, std::int64_t slots,
                     std::int64_t more_slots) {
  Graph graph;
  Tensor ids = graph.add_input("ids", {DType::i32, {slots}, {}});
  Tensor sums = graph.add_input("sums", {DType::f32, {slots, width}, {}});
  Tensor more_ids = graph.add_input("more ids", {DType::i32, {more_slots}, {}});
  Tensor more = graph.add_input("more", {DType::f32, {more_slots, width}, {}});
  const auto made = ops::add_rows(ids, sums, more_ids, more, {.rows = rows});
  graph.add_output("ids", made.ids_out, 0);
  graph.add_output("sums", made.sums_out, 1);
  return graph;
}

Graph adamw_graph(std::int64_t elements, const config::OptimizerSection& config,
                  double weight_decay, bool copy) {
  namespace in = operand::adamw;
  Graph graph;
  auto flat = [&](const char* name) { return graph.add_input(name, {DType::f32, {elements}, {}}); };
  const ops::AdamwInputs inputs{.p = flat("p"),
                                .g = flat("g"),
                                .m = flat("m"),
                                .v = flat("v"),
                                .scalars = graph.add_input("scalars", {DType::f32, {4}, {}})};
  const auto results = ops::adamw(inputs, {.beta1 = config.beta1,
                                           .beta2 = config.beta2,
                                           .eps = config.eps,
                                           .weight_decay = weight_decay,
                                           .copy = copy});
  graph.add_output("p", results.p_out, in::kP);
  graph.add_output("m", results.m_out, in::kM);
  graph.add_output("v", results.v_out, in::kV);
  if (copy) graph.add_output("copy", results.copy);
  return graph;
}

Graph adamw_rows_graph(std::int64_t rows, std::int64_t width, std::int64_t slots,
                       const config::OptimizerSection& config, double weight_decay, bool copy) {
  namespace in = operand::adamw_rows;
  Graph graph;
  auto table = [&](const char* name) {
    return graph.add_input(name, {DType::f32, {rows, width}, {}});
  };
  ops::AdamwRowsInputs inputs{.p = table("p"),
                              .ids = graph.add_input("ids", {DType::i32, {slots}, {}}),
                              .g = graph.add_input("g", {DType::f32, {slots, width}, {}}),
                              .m = table("m"),
                              .v = table("v"),
                              .scalars = graph.add_input("scalars", {DType::f32, {4}, {}})};
  if (copy) inputs.copy = graph.add_input("copy", {DType::bf16, {rows, width}, {}});
  const auto results = ops::adamw_rows(inputs, {.beta1 = config.beta1,
                                                .beta2 = config.beta2,
                                                .eps = config.eps,
                                                .weight_decay = weight_decay,
                                                .lazy = config.lazy_embeddings});
  graph.add_output("p", results.p_out, in::kP);
  graph.add_output("m", results.m_out, in::kM);
  graph.add_output("v", results.v_out, in::kV);
  if (copy) graph.add_output("copy", results.copy_out, in::kCopy);
  return graph;
}

}  // namespace

Optimizer::Optimizer(const decoder::ParameterTable& parameters,
                     const config::OptimizerSection& config, const Backend& backend)
    : parameters_(parameters), config_(config), backend_(backend) {
  LAMINA_ASSERT(config.name == "adamw");
}

Graph Optimizer::graph_of(const Kind& k) const {
  switch (k.work) {
    case Kind::Work::norm:
      return norm_graph(k.rows);
    case Kind::Work::accumulate:
      return k.slots > 0 ? add_rows_graph(k.rows, k.width, k.slots, k.more_slots)
                         : accumulate_graph(k.rows);
    case Kind::Work::update:
      break;
  }
  return k.slots > 0 ? adamw_rows_graph(k.rows, k.width, k.slots, config_, k.weight_decay, k.copy)
                     : adamw_graph(k.rows, config_, k.weight_decay, k.copy);
}

void Optimizer::run(const Kind& kind, std::span<const Binding> inputs,
                    std::span<const Binding> outputs) {
  auto [at, fresh] = programs_.try_emplace(kind);
  if (fresh) {
    at->second = program::compile(graph_of(kind), backend_);
    std::size_t bytes = at->second->arena_bytes();
    if (!arena_ || arena_->bytes() < bytes) arena_ = backend_.allocate(bytes);
  }
  at->second->run(inputs, outputs, arena_->data());
}

double Optimizer::gradient_norm(const TrainState& state) {
  double total = 0;
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    if (!p.learns()) continue;
    double sum = 0;
    Binding in{state.gradients()[i]}, out{&sum};
    run({.work = Kind::Work::norm, .rows = state.num_gradient_elements(static_cast<int>(i))},
        {&in, 1}, {&out, 1});
    total += sum;
  }
  return std::sqrt(total);
}

std::optional<Optimizer::BadElement> Optimizer::first_non_finite(const TrainState& state) const {
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    if (!p.learns()) continue;
    const float* g = static_cast<const float*>(state.gradients()[i]);
    const auto* ids = static_cast<const std::int32_t*>(state.gradient_ids()[i]);
    const std::int64_t n = state.num_gradient_elements(static_cast<int>(i));
    for (std::int64_t k = 0; k < n; ++k) {
      if (std::isfinite(g[k])) continue;
      const std::int64_t width = p.desc.shape[-1];
      return BadElement{static_cast<int>(i), ids ? ids[k / width] * width + k % width : k, g[k]};
    }
  }
  return std::nullopt;
}

void Optimizer::accumulate(const TrainState& state) {
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    if (!p.learns()) continue;
    Binding sum{state.gradients()[i]}, more{state.more_gradients()[i]};
    if (!state.is_listed(static_cast<int>(i))) {
      Binding in[] = {sum, more};
      run({.work = Kind::Work::accumulate, .rows = p.num_elements()}, in, {&sum, 1});
      continue;
    }
    Binding ids{state.gradient_ids()[i]};
    Binding in[] = {ids, sum, {state.more_gradient_ids()[i]}, more}, out[] = {ids, sum};
    run({.work = Kind::Work::accumulate,
         .rows = p.desc.shape[0],
         .width = p.desc.shape[1],
         .slots = state.lists().step[i],
         .more_slots = state.lists().microbatch[i]},
        in, out);
  }
}

void Optimizer::update(const TrainState& state, double lr, double gradient_scale,
                       std::int64_t step) {
  double t = static_cast<double>(step + 1);
  float scalars[4] = {static_cast<float>(lr), static_cast<float>(gradient_scale),
                      static_cast<float>(1 - std::pow(config_.beta1, t)),
                      static_cast<float>(1 - std::pow(config_.beta2, t))};
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    if (!p.learns()) continue;
    scalars[0] = static_cast<float>(lr * p.learning.lr_scale);
    const bool copy = state.has_copy(static_cast<int>(i));
    const Binding master{state.masters()[i]}, g{state.gradients()[i]}, m{state.first_moments()[i]},
        v{state.second_moments()[i]}, used{state.used()[i]}, numbers{scalars};
    const Binding out[] = {master, m, v, used};
    const std::span<const Binding> results(out, copy ? 4 : 3);
    Kind kind{
        .work = Kind::Work::update,
        .rows = p.num_elements(),
        .weight_decay = p.learning.weight_decay.value_or(p.decays() ? config_.weight_decay : 0),
        .copy = copy};
    if (!state.is_listed(static_cast<int>(i))) {
      const Binding in[] = {master, g, m, v, numbers};
      run(kind, in, results);
      continue;
    }
    kind.rows = p.desc.shape[0];
    kind.width = p.desc.shape[1];
    kind.slots = state.lists().step[i];
    const Binding in[] = {master, {state.gradient_ids()[i]}, g, m, v, numbers, used};
    run(kind, std::span(in, copy ? 7 : 6), results);
  }
}

}  // namespace lamina::train
