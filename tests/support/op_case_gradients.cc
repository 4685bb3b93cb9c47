// Checks the gradients of op cases.
#include <algorithm>
#include <cmath>
#include <random>

#include "autodiff/vjp.h"
#include "backends/cpu/backend.h"
#include "ops/op.h"
#include "ops/registry.h"
#include "passes/lower.h"
#include "support/op_case_build.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

// True if the node has a gradient: floating operands and results.
bool differentiable(const OpCases& list, const OpCase& c) {
  return c.gradient && !ops::get(list.op).def->zero_gradient;
}

// A number that depends on every result: the sum of all elements times fixed random weights.
struct Projection {
  Tensor sum;
  std::vector<Array> weights;
};

Projection project(const OpCases& list, Graph& graph, std::span<const Tensor> results) {
  std::mt19937 random(23);
  Projection out;
  for (const Tensor& r : results.first(std::min(list.num_differentiable, results.size()))) {
    if (!is_floating(r.dtype())) continue;
    out.weights.push_back(random_array(r.type(), random, 0.5, 1.5));
    Tensor weight = graph.add_input("weight", r.type());
    std::vector<std::int64_t> dims;
    for (int d = 0; d < r.ndim(); ++d) dims.push_back(d);
    Tensor term = ops::cast(ops::reduce_sum(r * weight, dims), DType::f64);
    out.sum = out.sum ? out.sum + term : term;
  }
  return out;
}

// Adds the gradients of the projection by every floating operand as outputs of the graph.
std::vector<std::size_t> add_gradients(Graph& graph, std::span<const Tensor> operands, Tensor sum) {
  std::vector<std::size_t> which;
  std::vector<Tensor> wanted;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i] && operands[i].dtype() == DType::f64) {
      wanted.push_back(operands[i]);
      which.push_back(i);
    }
  Tensor one = ops::constant(graph, sum.type(), 1);
  auto grads = autodiff::vjp(graph, std::span(&sum, 1), std::span(&one, 1), wanted,
                             autodiff::save_everything());
  for (std::size_t g = 0; g < grads.size(); ++g) {
    Tensor grad = grads[g] ? grads[g] : ops::zeros_like(wanted[g]);
    graph.add_output("gradient" + std::to_string(which[g]), grad);
  }
  return which;
}

void concat_inputs(std::vector<Array>& to, const std::vector<Array>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Returns the index among the present inputs.
std::size_t present_index(std::span<const Tensor> operands, std::size_t i) {
  return static_cast<std::size_t>(std::ranges::count_if(
      operands.first(i), [](const Tensor& t) { return static_cast<bool>(t); }));
}

void check_gradient_of(const OpCases& list, const OpCase& c) {
  Built built, forward;
  build(list, c, DType::f64, DType::f64, built);
  build(list, c, DType::f64, DType::f64, forward);
  if (std::ranges::any_of(built.inputs, [](const Array& a) { return a.bytes.empty(); })) return;
  Projection value = project(list, forward.graph, forward.results);
  if (!value.sum) return;
  forward.graph.add_output("value", value.sum);
  concat_inputs(forward.inputs, value.weights);

  Projection projection = project(list, built.graph, built.results);
  std::vector<std::size_t> which = add_gradients(built.graph, built.operands, projection.sum);
  concat_inputs(built.inputs, projection.weights);
  std::vector<Array> gradients = run(built.graph, built.inputs);

  const Backend& backend = cpu::cpu_backend();
  Program program(optimized_for(backend, forward.graph), backend);
  constexpr double kStep = 1e-5;
  for (std::size_t g = 0; g < which.size(); ++g) {
    const Array& gradient = gradients[g];
    const std::size_t input = present_index(built.operands, which[g]);
    double largest = 1e-2;
    for (double x : to_doubles(gradient)) largest = std::max(largest, std::abs(x));
    const std::int64_t count = gradient.type.num_elements();
    // A prime stride visits all parts of a large input.
    const std::int64_t stride = count > 97 ? 37 : 1;
    for (std::int64_t i = 0; i < count; i += stride) {
      auto value_at = [&](double shift) {
        std::vector<Array> inputs = forward.inputs;
        set(inputs[input], i, get(inputs[input], i) + shift);
        return get(run(program, backend, std::move(inputs))[0], 0);
      };
      const double slope = (value_at(kStep) - value_at(-kStep)) / (2 * kStep);
      ASSERT_NEAR(get(gradient, i), slope, 2e-6 * largest * c.loosen)
          << "gradient of input " << which[g] << ", element " << i;
    }
  }
}

}  // namespace

void check_gradient(const OpCases& list) {
  for_each(list, [&](const OpCase& c, DType dtype) {
    if (differentiable(list, c) && dtype == DType::f64) check_gradient_of(list, c);
  });
}

void check_own_gradient(const OpCases& list) {
  const Op& op = ops::get(list.op);
  if (!op.def->vjp || !op.def->lower) return;
  for_each(list, [&](const OpCase& c, DType dtype) {
    if (!differentiable(list, c) || dtype != DType::f64) return;
    Built own;
    build(list, c, dtype, dtype, own);
    add_outputs(own.graph, own.results);
    // The same graph with the op replaced by its definition, before differentiating.
    Built meant;
    meant.inputs = own.inputs;
    meant.graph =
        passes::lower(own.graph, [&](const Graph&, const Node& node) { return node.op != &op; });
    std::size_t next = 0;
    for (const Tensor& t : own.operands)
      meant.operands.push_back(t ? meant.graph.tensor(meant.graph.inputs()[next++].value)
                                 : Tensor{});
    for (const GraphOutput& output : meant.graph.outputs())
      meant.results.push_back(meant.graph.tensor(output.value));
    std::vector<std::vector<Array>> gradients;
    for (Built* built : {&own, &meant}) {
      built->graph.set_outputs({});
      Projection projection = project(list, built->graph, built->results);
      add_gradients(built->graph, built->operands, projection.sum);
      std::vector<Array> inputs = built->inputs;
      concat_inputs(inputs, projection.weights);
      gradients.push_back(run(built->graph, inputs));
    }
    for (std::size_t g = 0; g < gradients[0].size(); ++g)
      expect_close(gradients[0][g], to_doubles(gradients[1][g]), 1e-10 * c.loosen,
                   fmt::format("gradient {}", g));
  });
}

}  // namespace lamina::testing
