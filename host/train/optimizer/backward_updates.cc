#include "train/optimizer/backward_updates.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "train/optimizer/update_rules.h"

namespace lamina::train {

using decoder::Input;
using decoder::Output;

namespace {

// Returns the tensors that graphs read, by parameter.
std::vector<TensorRef> used_tensors(const TrainState& state) {
  std::vector<TensorRef> out;
  for (int i = 0; i < std::ssize(state.used()); ++i)
    out.push_back(state.has_copy(i) ? state.copies()[static_cast<std::size_t>(i)] : state.kept(i));
  return out;
}

// Returns the tensors of each state of state_of(), by its index there and by parameter.
std::vector<std::vector<TensorRef>> state_tensors(const TrainState& state) {
  const std::size_t num_parameters = state.masters().size();
  std::vector<std::vector<TensorRef>> out;
  for (std::size_t i = 0; i < num_parameters; ++i) {
    std::size_t number = 0;
    for (const OptimizerState& kept : state.optimizer_states()) {
      if (kept.types.size() <= i || !kept.types[i]) continue;
      if (out.size() <= number) out.emplace_back(num_parameters);
      out[number++][i] = kept.data[i];
    }
  }
  return out;
}

}  // namespace

void BackwardUpdates::forget_results() {
  num_updated_ = 0;
  bad_.reset();
}

std::array<double, kNumScalars> BackwardUpdates::numbers(int parameter, double lr,
                                                         std::int64_t update) const {
  std::array<double, kNumScalars> out;
  std::ranges::copy(optimizer_.scalars(parameter, lr, 1, update), out.begin());
  // The pass multiplies it in f64 by the factor that clips.
  out[kGradientScale] = optimizer_.multiplier(parameter);
  return out;
}

void BackwardUpdates::take(int parameter, const double* check) {
  if (bad_) return;
  optimizer_.measured(parameter, check[0]);
  if (std::isfinite(check[0]))
    ++num_updated_;
  else
    bad_ =
        BadGradient{parameter, {static_cast<std::int64_t>(check[1]), static_cast<float>(check[2])}};
}

GraphUpdates::GraphUpdates(program::BoundProgram& program, const TrainState& state,
                           Optimizer& optimizer)
    : BackwardUpdates(optimizer), program_(program), state_(state) {
  const std::vector<TensorRef> used = used_tensors(state);
  const std::vector<std::vector<TensorRef>> states = state_tensors(state);
  program.bind_updates({used, state.masters(), states});
  const std::vector<decoder::InputRole>& inputs = program.input_roles();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].role == Input::update_scalars) numbers_.push_back({i, inputs[i].members});
  const Graph& graph = program.program().graph();
  std::size_t found = 0;
  for (std::size_t o = 0; o < program.output_roles().size(); ++o) {
    const decoder::OutputRole& output = program.output_roles()[o];
    if (output.role != Output::gradient_check) continue;
    const NodeId scan = graph.value(graph.outputs()[o].value).node;
    LAMINA_ASSERT(scan != kNoNode && graph.node(scan).op->def->facts.loops);
    if (checks_.empty() || checks_.back().scan != scan) checks_.push_back({scan, {}});
    checks_.back().outputs.push_back(o);
    found += inputs[static_cast<std::size_t>(output.input)].members.size();
  }
  LAMINA_ASSERT(found == state.lists().num_shared());
}

void GraphUpdates::begin(double lr, std::int64_t update) {
  forget_results();
  program_.set(Input::updating, std::array{std::int64_t{1}});
  for (const Numbers& of : numbers_) {
    std::vector<double> rows;
    for (const int member : of.members) {
      state_.will_change(member);
      const auto row = numbers(member, lr, update);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    program_.set(of.input, rows);
  }
}

void GraphUpdates::stop() { program_.set(Input::updating, std::array{std::int64_t{0}}); }

void GraphUpdates::read() {
  for (const Checks& checks : checks_) read(checks);
}

// In the order of the pass.
void GraphUpdates::read(const Checks& checks) {
  const Node& scan = program_.program().graph().node(checks.scan);
  const std::int64_t times = scan.int_attr("times");
  std::vector<std::vector<double>> values;
  for (const std::size_t output : checks.outputs) values.push_back(program_.values(output));
  for (std::int64_t i = 0; i < times; ++i) {
    const auto element = static_cast<std::size_t>(scan.int_attr("reverse") ? times - 1 - i : i);
    for (std::size_t o = 0; o < values.size(); ++o) {
      const auto input = static_cast<std::size_t>(program_.output_roles()[checks.outputs[o]].input);
      take(program_.input_roles()[input].members[element], values[o].data() + 3 * element);
    }
  }
}

}  // namespace lamina::train
