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

BackwardUpdates::BackwardUpdates(program::BoundProgram& program, const TrainState& state,
                                 Optimizer& optimizer)
    : program_(program), state_(state), optimizer_(optimizer) {
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

void BackwardUpdates::begin(double lr, std::int64_t update) {
  num_updated_ = 0;
  bad_.reset();
  program_.set(Input::updating, std::array{std::int64_t{1}});
  for (const Numbers& numbers : numbers_) {
    std::vector<double> rows;
    for (const int member : numbers.members) {
      state_.will_change(member);
      const auto scalars = optimizer_.scalars(member, lr, 1, update);
      rows.insert(rows.end(), scalars.begin(), scalars.end());
      // The pass multiplies it in f64 by the factor that clips.
      rows[rows.size() - kNumScalars + kGradientScale] = optimizer_.multiplier(member);
    }
    program_.set(numbers.input, rows);
  }
}

void BackwardUpdates::stop() { program_.set(Input::updating, std::array{std::int64_t{0}}); }

void BackwardUpdates::read() {
  for (const Checks& checks : checks_) read(checks);
}

// In the order of the pass.
void BackwardUpdates::read(const Checks& checks) {
  struct Check {
    double squares, index, value;
  };
  const Node& scan = program_.program().graph().node(checks.scan);
  const std::int64_t times = scan.int_attr("times");
  std::vector<std::vector<double>> values;
  for (const std::size_t output : checks.outputs) values.push_back(program_.values(output));
  for (std::int64_t i = 0; i < times; ++i) {
    const auto element = static_cast<std::size_t>(scan.int_attr("reverse") ? times - 1 - i : i);
    for (std::size_t o = 0; o < values.size() && !bad_; ++o) {
      const double* row = values[o].data() + 3 * element;
      const Check check{row[0], row[1], row[2]};
      const auto input = static_cast<std::size_t>(program_.output_roles()[checks.outputs[o]].input);
      const int parameter = program_.input_roles()[input].members[element];
      optimizer_.measured(parameter, check.squares);
      if (std::isfinite(check.squares))
        ++num_updated_;
      else
        bad_ = BadGradient{
            parameter, {static_cast<std::int64_t>(check.index), static_cast<float>(check.value)}};
    }
  }
}

}  // namespace lamina::train
