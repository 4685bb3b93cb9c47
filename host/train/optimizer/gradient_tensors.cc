#include "train/optimizer/gradient_tensors.h"

#include "ops/tensor.h"
#include "runtime/host_access.h"

namespace lamina::train {
namespace {

Type flat(std::int64_t elements) { return {DType::f32, {elements}, {}}; }

Graph norms_graph(const std::vector<std::int64_t>& elements) {
  Graph graph;
  for (const std::int64_t n : elements)
    graph.add_output("sum", ops::sum_of_squares(graph.add_input("g", flat(n))));
  return graph;
}

Graph clear_graph(std::int64_t elements) {
  Graph graph;
  graph.add_output("zeros", ops::constant(graph, flat(elements), 0));
  return graph;
}

// Ids past the last row mark empty slots.
template <typename List>
Graph empty_graph(const List& list) {
  Graph graph;
  const std::int64_t slots = list.slots - list.first_slot;
  graph.add_output("ids",
                   ops::constant(graph, {DType::i32, {slots}, {}}, static_cast<double>(list.rows)));
  graph.add_output("sums", ops::constant(graph, {DType::f32, {slots, list.width}, {}}, 0));
  return graph;
}

template <typename List>
Graph join_graph(const List& list) {
  Graph graph;
  Tensor ids = graph.add_input("ids", {DType::i32, {list.slots}, {}});
  Tensor sums = graph.add_input("sums", {DType::f32, {list.slots, list.width}, {}});
  Tensor more_ids = graph.add_input("more ids", {DType::i32, {list.more_slots}, {}});
  Tensor more = graph.add_input("more", {DType::f32, {list.more_slots, list.width}, {}});
  const auto made = ops::add_rows(ids, sums, more_ids, more, {.rows = list.rows});
  graph.add_output("ids", made.ids_out, 0);
  graph.add_output("sums", made.sums_out, 1);
  return graph;
}

template <typename List>
Graph spread_graph(const List& list) {
  Graph graph;
  Tensor ids = graph.add_input("ids", {DType::i32, {list.slots}, {}});
  Tensor sums = graph.add_input("sums", {DType::f32, {list.slots, list.width}, {}});
  graph.add_output("whole", ops::embedding_grad(ids, sums, {}, {.rows = list.rows}));
  return graph;
}

}  // namespace

GradientTensors::GradientTensors(const decoder::ParameterTable& parameters,
                                 program::ProgramArena& arena)
    : parameters_(parameters),
      arena_(arena),
      clear_(arena, clear_graph),
      empty_(arena, empty_graph<List>),
      join_(arena, join_graph<List>),
      spread_(arena, spread_graph<List>) {}

GradientTensors::List GradientTensors::list_of(int parameter, std::int64_t slots) const {
  const Shape& table = parameters_[parameter].desc.shape;
  return {.rows = table[0], .width = table[1], .slots = slots};
}

std::vector<int> GradientTensors::measured(const TrainState& state) const {
  std::vector<int> out;
  for (int i = 0; i < std::ssize(parameters_.all()); ++i)
    if (parameters_[i].learns() && !state.lists().is_shared(i)) out.push_back(i);
  return out;
}

GradientTensors::Norms& GradientTensors::norms(const std::vector<std::int64_t>& elements) {
  Norms& norms = norms_[elements];
  if (norms.program) return norms;
  norms.program = program::compile(norms_graph(elements), arena_.backend());
  for (std::size_t i = 0; i < elements.size(); ++i) norms.values.add_output({DType::f64, {}, {}});
  norms.values.allocate();
  return norms;
}

std::size_t GradientTensors::norms_bytes(const GradientLists& lists) {
  std::vector<std::int64_t> elements;
  for (int i = 0; i < std::ssize(parameters_.all()); ++i) {
    const decoder::Parameter& p = parameters_[i];
    if (!p.learns() || lists.is_shared(i)) continue;
    const auto index = static_cast<std::size_t>(i);
    const std::int64_t slots = index < lists.step.size() ? lists.step[index] : 0;
    elements.push_back(slots > 0 ? slots * p.desc.shape[-1] : p.num_elements());
  }
  return norms(elements).program->arena_bytes();
}

std::vector<double> GradientTensors::measure(const TrainState& state,
                                             const std::vector<int>& parameters) {
  if (parameters.empty()) return {};
  std::vector<std::int64_t> elements;
  std::vector<ConstTensorRef> inputs;
  for (const int parameter : parameters) {
    elements.push_back(state.num_gradient_elements(parameter));
    inputs.push_back(state.gradients()[static_cast<std::size_t>(parameter)]);
  }
  Norms& norms = this->norms(elements);
  std::vector<TensorRef> outputs;
  for (std::size_t i = 0; i < elements.size(); ++i) outputs.push_back(norms.values.output(i));
  arena_.run(*norms.program, inputs, outputs);
  std::vector<double> sums;
  for (std::size_t i = 0; i < elements.size(); ++i) sums.push_back(norms.values.get(i)[0]);
  return sums;
}

std::vector<double> GradientTensors::sums_of_squares(const TrainState& state) {
  const std::vector<int> parameters = measured(state);
  const std::vector<double> sums = measure(state, parameters);
  std::vector<double> out(parameters_.all().size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    out[static_cast<std::size_t>(parameters[i])] = sums[i];
  return out;
}

double GradientTensors::sum_of_squares(const TrainState& state, int parameter) {
  return measure(state, {parameter}).front();
}

std::optional<BadGradient> GradientTensors::first_non_finite(const TrainState& state) const {
  for (const int parameter : measured(state))
    if (auto bad = first_non_finite(state, parameter)) return bad;
  return std::nullopt;
}

std::optional<BadGradient> GradientTensors::first_non_finite(const TrainState& state,
                                                             int parameter) const {
  const auto i = static_cast<std::size_t>(parameter);
  auto bad = read_tensor<float>(state.queue(), state.gradients()[i],
                                [](auto values) { return train::first_non_finite(values); });
  if (!bad) return std::nullopt;
  if (state.is_listed(parameter)) {
    const auto ids = copy_to_host<std::int32_t>(state.queue(), state.gradient_ids()[i]);
    const std::int64_t width = parameters_[parameter].desc.shape[-1];
    bad->element =
        ids[static_cast<std::size_t>(bad->element / width)] * width + bad->element % width;
  }
  return BadGradient{parameter, *bad};
}

void GradientTensors::clear_sums(const TrainState& state) {
  for (int i = 0; i < std::ssize(parameters_.all()); ++i) {
    if (!parameters_[i].learns() || state.is_listed(i)) continue;
    const TensorRef& sum = state.gradients()[static_cast<std::size_t>(i)];
    clear_.run(parameters_[i].num_elements(), {}, {&sum, 1});
  }
}

void GradientTensors::clear_later_slots(const TrainState& state) {
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    if (!state.is_listed(static_cast<int>(i))) continue;
    List list = list_of(static_cast<int>(i), state.lists().step[i]);
    list.first_slot = state.lists().microbatch[i];
    if (list.first_slot == list.slots) continue;
    const std::int64_t slots = list.slots - list.first_slot;
    const TensorRef out[] = {
        state.gradient_ids()[i].part(list.first_slot, {DType::i32, {slots}, {}}),
        state.gradients()[i].part(list.first_slot * list.width,
                                  {DType::f32, {slots, list.width}, {}})};
    empty_.run(list, {}, out);
  }
}

void GradientTensors::join_lists(const TrainState& state) {
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    if (!state.is_listed(static_cast<int>(i))) continue;
    List list = list_of(static_cast<int>(i), state.lists().step[i]);
    list.more_slots = state.lists().microbatch[i];
    const TensorRef &ids = state.gradient_ids()[i], &sums = state.gradients()[i];
    const ConstTensorRef in[] = {ids, sums, state.more_gradient_ids()[i],
                                 state.more_gradients()[i]};
    const TensorRef out[] = {ids, sums};
    join_.run(list, in, out);
  }
}

void GradientTensors::replace_list(const TrainState& state, int parameter,
                                   std::span<const RowList> lists) {
  const auto i = static_cast<std::size_t>(parameter);
  List list = list_of(parameter, state.lists().step[i]);
  const TensorRef out[] = {state.gradient_ids()[i], state.gradients()[i]};
  empty_.run(list, {}, out);
  for (const RowList& more : lists) {
    list.more_slots = more.ids.type().num_elements();
    const ConstTensorRef in[] = {out[0], out[1], more.ids, more.rows};
    join_.run(list, in, out);
  }
}

void GradientTensors::spread(const TrainState& state, int parameter, const TensorRef& whole) {
  const auto i = static_cast<std::size_t>(parameter);
  const ConstTensorRef in[] = {state.gradient_ids()[i], state.gradients()[i]};
  spread_.run(list_of(parameter, state.lists().step[i]), in, {&whole, 1});
}

std::size_t GradientTensors::spread_bytes(int parameter, std::int64_t slots) {
  return spread_.get(list_of(parameter, slots)).arena_bytes();
}

}  // namespace lamina::train
