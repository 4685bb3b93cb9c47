// The terms of the loss of a training step: their weights, scales and means.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/roles/model_graph.h"
#include "program/bound_program.h"
#include "program/microbatch.h"

namespace lamina::train {

class Task;

// The weight of each term in the loss that training minimises, by name; terms that are not named
// have weight 1.
using LossWeights = std::map<std::string, double, std::less<>>;

// Returns the weights that a run asks for, by keys of [train] and by its task.
LossWeights loss_weights(double z_loss, double label_smoothing, const Task& task);

// GraphFeatures::losses: the terms with a weight.
std::vector<std::string> wanted_losses(const LossWeights& weights);

// The mean of a term over all microbatches of a step.
struct LossMean {
  decoder::LossTerm term;
  double weight = 1;
  double mean = 0;
};

// The number of items of each LossCount in a step, at least 1.
struct LossCounts {
  double items = 1, mtp_labels = 1, microbatches = 1;
  double of(decoder::LossCount count) const;
};

// Sums the terms over the microbatches of a step.
class StepLosses {
 public:
  // Sets the loss scales of the program, weight / count, which must outlive this.
  StepLosses(program::BoundProgram& program, const LossWeights& weights, const LossCounts& counts);

  // After each microbatch.
  void add();
  // Adds the sums of another part of the step. REQUIRES: both have the same model.
  void add(const StepLosses& other);
  // One per term, in the order of BoundProgram::losses().
  std::vector<LossMean> means() const;

 private:
  program::BoundProgram& program_;
  std::vector<LossMean> terms_;  // their means are sums until means()
  LossCounts counts_;
};

// The sum of weight * mean over all terms.
double total_loss(std::span<const LossMean> means);

}  // namespace lamina::train
