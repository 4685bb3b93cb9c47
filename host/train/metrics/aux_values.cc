#include "train/metrics/aux_values.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "runtime/host_access.h"

namespace lamina::train {

using decoder::Input;
using decoder::Output;
using decoder::Reduce;
using Rule = registry::UpdateDesc::Rule;

AuxValues::AuxValues(program::BoundProgram& program, const decoder::ParameterTable& parameters)
    : program_(program) {
  program.bind(Output::aux_loss, &aux_);
  program.bind(Output::mtp_loss, &mtp_);
  for (program::BoundProgram::NamedOutput& output : program.named_outputs())
    named_.push_back({std::move(output), {}, {}});
  for (Named& named : named_) {
    LAMINA_ASSERT(named.output.type.dtype == DType::f32);
    named.latest.resize(static_cast<std::size_t>(named.output.type.num_elements()));
    program.bind_output(named.output.index, named.latest.data());
  }
  std::vector<TensorRef> by_parameter(parameters.all().size());
  for (const decoder::ParameterUpdate& update : program.updates())
    changes_.push_back({update, parameters[update.parameter].learning.frozen, {}, {}});
  for (Change& change : changes_) {
    change.latest.resize(
        static_cast<std::size_t>(parameters[change.update.parameter].num_elements()));
    by_parameter[static_cast<std::size_t>(change.update.parameter)] =
        host_tensor(std::span(change.latest));
  }
  if (!changes_.empty()) program.bind_updates(by_parameter);
}

void AuxValues::begin() {
  added_ = 0;
  aux_sum_ = mtp_sum_ = 0;
  for (Named& named : named_) {
    bool largest = named.output.role == Output::metric &&
                   program_.metrics().at(named.output.name) == Reduce::max;
    named.total.assign(named.latest.size(),
                       largest ? -std::numeric_limits<double>::infinity() : 0.0);
  }
  for (Change& change : changes_) change.total.assign(change.latest.size(), 0.0);
}

void AuxValues::add() {
  ++added_;
  aux_sum_ += aux_;
  mtp_sum_ += mtp_;
  for (Named& named : named_) {
    bool largest = named.output.role == Output::metric &&
                   program_.metrics().at(named.output.name) == Reduce::max;
    for (std::size_t i = 0; i < named.latest.size(); ++i)
      named.total[i] = largest ? std::max<double>(named.total[i], named.latest[i])
                               : named.total[i] + named.latest[i];
  }
  for (Change& change : changes_)
    for (std::size_t i = 0; i < change.latest.size(); ++i) change.total[i] += change.latest[i];
}

std::vector<AuxScalar> AuxValues::scalars() const {
  std::vector<AuxScalar> out;
  double microbatches = static_cast<double>(added_);
  for (const Named& named : named_)
    if (named.output.role == Output::named_loss)
      out.push_back({named.output.name, named.total[0] / microbatches});
  for (const Named& named : named_) {
    if (named.output.role != Output::metric) continue;
    bool mean = program_.metrics().at(named.output.name) == Reduce::mean;
    std::size_t width = named.total.size() / named.output.layers.size();
    for (std::size_t i = 0; i < named.output.layers.size(); ++i) {
      double sum = 0, largest = -std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < width; ++k) {
        double value = named.total[i * width + k] / (mean ? microbatches : 1.0);
        sum += value;
        largest = std::max(largest, value);
      }
      std::string name = fmt::format("{}/layer_{:03}", named.output.name, named.output.layers[i]);
      if (width != 1) out.push_back({name + "/max", largest});
      out.push_back({width != 1 ? name + "/mean" : name,
                     sum / static_cast<double>(std::max<std::size_t>(width, 1))});
    }
  }
  return out;
}

std::vector<LayerValues> AuxValues::maxima(std::string_view name) const {
  std::vector<LayerValues> out;
  for (const Named& named : named_) {
    if (named.output.role != Output::metric || named.output.name != name) continue;
    LAMINA_ASSERT(program_.metrics().at(named.output.name) == Reduce::max);
    const std::size_t layers = named.output.layers.size(), width = named.total.size() / layers;
    for (std::size_t i = 0; i < layers; ++i) {
      const auto first = named.total.begin() + static_cast<std::ptrdiff_t>(i * width);
      out.push_back({named.output.layers[i], {first, first + static_cast<std::ptrdiff_t>(width)}});
    }
  }
  return out;
}

std::vector<AuxScalar> AuxValues::task_sums() const {
  std::vector<AuxScalar> out;
  for (const Named& named : named_)
    if (named.output.role == Output::task_sum) out.push_back({named.output.name, named.total[0]});
  return out;
}

void AuxValues::apply(const TrainState& state) const {
  for (const Change& change : changes_) {
    if (change.frozen) continue;
    LAMINA_ASSERT(added_ > 0);
    state.will_change(change.update.parameter);
    const TensorRef& master = state.masters()[static_cast<std::size_t>(change.update.parameter)];
    change_tensor<float>(state.queue(), master, [&](std::span<float> p) {
      for (std::size_t i = 0; i < change.total.size(); ++i) {
        double value = change.total[i] / static_cast<double>(added_);
        double now = p[i];
        switch (change.update.rule) {
          case Rule::add:
            now += change.update.rate * value;
            break;
          case Rule::sign_step:
            now += change.update.rate * static_cast<double>((value > 0) - (value < 0));
            break;
          case Rule::assign:
            now = value;
            break;
        }
        p[i] = static_cast<float>(now);
      }
    });
    state.refresh_copy(change.update.parameter);
  }
}

}  // namespace lamina::train
