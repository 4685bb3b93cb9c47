#include "train/optimizer.h"

#include <cmath>

#include "core/error.h"
#include "decoder/bound_program.h"
#include "ops/registry.h"
#include "ops/tensor.h"
#include "passes/pipeline.h"

namespace lamina::train {
namespace {

Graph norm_graph(std::int64_t elements) {
  Graph graph;
  Tensor g = graph.add_input("g", {DType::f32, {elements}, {}});
  graph.add_output("sum", ops::call("sum_of_squares", {g}));
  return graph;
}

Graph accumulate_graph(std::int64_t elements) {
  Graph graph;
  Tensor sum = graph.add_input("sum", {DType::f32, {elements}, {}});
  Tensor more = graph.add_input("more", {DType::f32, {elements}, {}});
  graph.add_output("sum", sum + more, 0);
  return graph;
}

Graph adamw_graph(std::int64_t elements, const config::OptimizerSection& config, bool decay,
                  bool copy) {
  Graph graph;
  std::vector<Tensor> inputs;
  for (const char* name : {"p", "g", "m", "v"})
    inputs.push_back(graph.add_input(name, {DType::f32, {elements}, {}}));
  inputs.push_back(graph.add_input("scalars", {DType::f32, {4}, {}}));
  std::vector<std::pair<std::string_view, AttrValue>> attrs{
      {"beta1", config.beta1},
      {"beta2", config.beta2},
      {"eps", config.eps},
      {"weight_decay", decay ? config.weight_decay : 0.0},
      {"copy", std::int64_t{copy}}};
  auto results = ops::call_all("adamw", inputs, attrs);
  graph.add_output("p", results[0], 0);
  graph.add_output("m", results[1], 2);
  graph.add_output("v", results[2], 3);
  if (copy) graph.add_output("copy", results[3]);
  return graph;
}

}  // namespace

Optimizer::Optimizer(const decoder::ParameterTable& parameters,
                     const config::OptimizerSection& config, const Backend& backend)
    : parameters_(parameters), config_(config), backend_(backend) {
  LAMINA_ASSERT(config.name == "adamw");
}

Program& Optimizer::program(const std::string& kind, const decoder::Parameter& p, bool copy) {
  std::int64_t n = p.num_elements();
  auto [at, fresh] = programs_.try_emplace({kind, n, p.decays(), copy});
  if (fresh) {
    Graph graph = kind == "norm"         ? norm_graph(n)
                  : kind == "accumulate" ? accumulate_graph(n)
                                         : adamw_graph(n, config_, p.decays(), copy);
    auto supports = [&](const Graph& g, const Node& node) {
      return decoder::is_supported(backend_, g, node);
    };
    at->second = std::make_unique<Program>(passes::optimize(std::move(graph), supports), backend_);
    std::size_t bytes = at->second->arena_bytes();
    if (!arena_ || arena_->bytes() < bytes) arena_ = backend_.allocate(bytes);
  }
  return *at->second;
}

double Optimizer::gradient_norm(const TrainState& state) {
  double total = 0;
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    if (!p.desc.trained) continue;
    double sum = 0;
    Program& norm = program("norm", p, false);
    Binding in{state.gradients()[i]}, out{&sum};
    norm.run({&in, 1}, {&out, 1}, arena_->data());
    total += sum;
  }
  return std::sqrt(total);
}

std::optional<Optimizer::BadElement> Optimizer::first_non_finite(const TrainState& state) const {
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    if (!p.desc.trained) continue;
    const float* g = static_cast<const float*>(state.gradients()[i]);
    for (std::int64_t k = 0; k < p.num_elements(); ++k)
      if (!std::isfinite(g[k])) return BadElement{static_cast<int>(i), k, g[k]};
  }
  return std::nullopt;
}

void Optimizer::accumulate(const TrainState& state) {
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    if (!p.desc.trained) continue;
    Program& add = program("accumulate", p, false);
    Binding in[] = {{state.gradients()[i]}, {state.more_gradients()[i]}};
    Binding out{state.gradients()[i]};
    add.run(in, {&out, 1}, arena_->data());
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
    if (!p.desc.trained) continue;
    bool copy = state.has_copy(static_cast<int>(i));
    Program& adamw = program("adamw", p, copy);
    Binding in[] = {{state.masters()[i]},
                    {state.gradients()[i]},
                    {state.first_moments()[i]},
                    {state.second_moments()[i]},
                    {scalars}};
    Binding out[] = {in[0], in[2], in[3], {state.used()[i]}};
    adamw.run(in, std::span(out, copy ? 4 : 3), arena_->data());
  }
}

}  // namespace lamina::train
