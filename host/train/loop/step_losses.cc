#include "train/loop/step_losses.h"

#include <algorithm>

#include "train/loop/task.h"

namespace lamina::train {

LossWeights loss_weights(double z_loss, double label_smoothing, const Task& task) {
  const double labels = task.label_weight();
  LossWeights out{{"loss", labels * (1 - label_smoothing)},
                  {"uniform_loss", labels * label_smoothing},
                  {"z_loss", z_loss}};
  task.weigh(out);
  return out;
}

std::vector<std::string> wanted_losses(const LossWeights& weights) {
  std::vector<std::string> out;
  for (const auto& [name, weight] : weights)
    if (weight != 0) out.push_back(name);
  return out;
}

double LossCounts::of(decoder::LossCount count) const {
  switch (count) {
    case decoder::LossCount::items:
      return items;
    case decoder::LossCount::mtp_labels:
      return mtp_labels;
    case decoder::LossCount::microbatches:
      break;
  }
  return microbatches;
}

StepLosses::StepLosses(program::BoundProgram& program, const LossWeights& weights,
                       const LossCounts& counts)
    : program_(program), counts_(counts) {
  program::LossScales scales;
  for (const decoder::LossTerm& term : program.losses()) {
    const auto weight = weights.find(term.name);
    terms_.push_back({term, weight == weights.end() ? 1 : weight->second});
    scales[term.name] = terms_.back().weight / counts.of(term.count);
  }
  program.set_loss_scales(scales);
}

void StepLosses::add() {
  const std::vector<double> sums = program_.values(decoder::Output::losses);
  for (std::size_t i = 0; i < terms_.size(); ++i) terms_[i].mean += sums[i];
}

void StepLosses::add(const StepLosses& other) {
  for (std::size_t i = 0; i < terms_.size(); ++i) terms_[i].mean += other.terms_[i].mean;
}

std::vector<LossMean> StepLosses::means() const {
  std::vector<LossMean> out = terms_;
  for (LossMean& of : out) of.mean /= counts_.of(of.term.count);
  return out;
}

double total_loss(std::span<const LossMean> means) {
  double out = 0;
  for (const LossMean& of : means) out += of.weight * of.mean;
  return out;
}

}  // namespace lamina::train
