#include "train/optimizer/weight_changes.h"

#include <algorithm>

#include "ops/tensor.h"

namespace lamina::train {

WeightChanges::WeightChanges(const decoder::ParameterTable& parameters, const TrainState& state,
                             program::ProgramArena& arena)
    : parameters_(parameters), state_(state), arena_(arena) {}

void WeightChanges::add(int parameter, std::span<const double> change) {
  run(Work::add, parameter, change);
}

void WeightChanges::assign(int parameter, std::span<const double> values) {
  run(Work::assign, parameter, values);
}

void WeightChanges::scale_rows(int parameter, std::span<const double> factors) {
  run(Work::scale_rows, parameter, factors);
}

// Inputs: p, numbers. Outputs: p, in place, and its copy.
Graph WeightChanges::graph_of(const Kind& kind) {
  Graph graph;
  const Shape shape{{kind.rows, kind.width}};
  Tensor p = graph.add_input("p", {DType::f32, shape, {}});
  const Shape given = kind.work == Work::scale_rows ? Shape{{kind.rows, 1}} : shape;
  Tensor numbers = graph.add_input("numbers", {DType::f64, given, {}});
  Tensor result = numbers;
  if (kind.work == Work::add) result = ops::cast(p, DType::f64) + numbers;
  if (kind.work == Work::scale_rows)
    result = ops::cast(p, DType::f64) * ops::broadcast(numbers, shape);
  result = ops::cast(result, DType::f32);
  graph.add_output("p", result, 0);
  if (kind.copy) graph.add_output("copy", ops::cast(result, DType::bf16));
  return graph;
}

void WeightChanges::run(Work work, int parameter, std::span<const double> numbers) {
  const auto i = static_cast<std::size_t>(parameter);
  const decoder::Parameter& p = parameters_[parameter];
  if (p.num_elements() == 0) return;
  const std::int64_t width = p.desc.shape.ndim() > 0 ? p.desc.shape[-1] : 1;
  const Kind kind{work, p.num_elements() / width, width, state_.has_copy(parameter)};
  Change& change = changes_[kind];
  if (!change.program) {
    change.program = program::compile(graph_of(kind), arena_.backend());
    const Graph& graph = change.program->graph();
    change.numbers = change.values.add_input(graph.type(graph.inputs()[1].value));
    change.values.allocate();
  }
  change.values.set(change.numbers, numbers);
  state_.will_change(parameter);
  const TensorRef& master = state_.masters()[i];
  const ConstTensorRef in[] = {master, change.values.input(change.numbers)};
  const TensorRef out[] = {master, kind.copy ? state_.copies()[i] : TensorRef()};
  arena_.run(*change.program, in, std::span(out, kind.copy ? 2 : 1));
}

}  // namespace lamina::train
