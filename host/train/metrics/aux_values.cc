#include "train/metrics/aux_values.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "runtime/host_access.h"

namespace lamina::train {

using decoder::Output;
using decoder::ParameterUpdate;
using decoder::Reduce;
using Rule = registry::UpdateDesc::Rule;

AuxValues::AuxValues(const program::BoundProgram& program,
                     const decoder::ParameterTable& parameters)
    : program_(program) {
  for (program::BoundProgram::NamedOutput& output : program.named_outputs())
    named_.push_back({std::move(output), {}});
  for (std::size_t o = 0; o < program.output_roles().size(); ++o) {
    const decoder::OutputRole& output = program.output_roles()[o];
    if (output.role != Output::update) continue;
    const std::vector<int>& members =
        program.input_roles()[static_cast<std::size_t>(output.input)].members;
    for (std::size_t element = 0; element < members.size(); ++element) {
      const auto update =
          std::ranges::find(program.updates(), members[element], &ParameterUpdate::parameter);
      LAMINA_ASSERT(update != program.updates().end());
      changes_.push_back({*update, parameters[members[element]].learning.frozen, o, element,
                          std::vector<double>(static_cast<std::size_t>(
                              parameters[members[element]].num_elements()))});
    }
  }
}

bool AuxValues::takes_largest(const Named& named) const {
  return named.output.role == Output::metric &&
         program_.metrics().at(named.output.name) == Reduce::max;
}

void AuxValues::begin() {
  added_ = 0;
  for (Named& named : named_)
    named.total.assign(static_cast<std::size_t>(named.output.type.num_elements()),
                       takes_largest(named) ? -std::numeric_limits<double>::infinity() : 0.0);
  for (Change& change : changes_) std::ranges::fill(change.total, 0.0);
}

void AuxValues::add() {
  ++added_;
  for (Named& named : named_) {
    const std::vector<double> latest = program_.values(named.output.index);
    const bool largest = takes_largest(named);
    for (std::size_t i = 0; i < latest.size(); ++i)
      named.total[i] = largest ? std::max(named.total[i], latest[i]) : named.total[i] + latest[i];
  }
  for (Change& change : changes_) {
    const std::vector<double> latest = program_.values(change.output);
    for (std::size_t i = 0; i < change.total.size(); ++i)
      change.total[i] += latest[change.element * change.total.size() + i];
  }
}

void AuxValues::add(const AuxValues& other) {
  added_ += other.added_;
  for (std::size_t n = 0; n < named_.size(); ++n) {
    Named& mine = named_[n];
    const std::vector<double>& more = other.named_[n].total;
    const bool largest = takes_largest(mine);
    for (std::size_t i = 0; i < more.size(); ++i)
      mine.total[i] = largest ? std::max(mine.total[i], more[i]) : mine.total[i] + more[i];
  }
  for (std::size_t n = 0; n < changes_.size(); ++n)
    for (std::size_t i = 0; i < changes_[n].total.size(); ++i)
      changes_[n].total[i] += other.changes_[n].total[i];
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

void AuxValues::apply(WeightChanges& weights) const {
  for (const Change& change : changes_) {
    if (change.frozen) continue;
    LAMINA_ASSERT(added_ > 0);
    std::vector<double> numbers;
    for (const double total : change.total) {
      const double mean = total / static_cast<double>(added_);
      switch (change.update.rule) {
        case Rule::add:
          numbers.push_back(change.update.rate * mean);
          break;
        case Rule::sign_step:
          numbers.push_back(change.update.rate * static_cast<double>((mean > 0) - (mean < 0)));
          break;
        case Rule::assign:
          numbers.push_back(mean);
          break;
      }
    }
    if (change.update.rule == Rule::assign)
      weights.assign(change.update.parameter, numbers);
    else
      weights.add(change.update.parameter, numbers);
  }
}

}  // namespace lamina::train
