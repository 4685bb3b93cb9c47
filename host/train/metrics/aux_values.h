// The auxiliary losses, metrics and updates of layers in a training step, and the loss of
// multi-token prediction: their memory, their means over microbatches, and the updates themselves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/stack/parameter.h"
#include "program/bound_program.h"
#include "train/optimizer/train_state.h"

namespace lamina::train {

// One number of metrics.jsonl: "moe_lb_loss", "expert_load/layer_007".
struct AuxScalar {
  std::string name;
  double value = 0;
};

// A metric of one layer, its elements one after another.
struct LayerValues {
  std::int64_t layer = 0;
  std::vector<double> values;
};

class AuxValues {
 public:
  // Binds their memory to the outputs of `program`.
  AuxValues(program::BoundProgram& program, const decoder::ParameterTable& parameters);
  AuxValues(const AuxValues&) = delete;
  AuxValues& operator=(const AuxValues&) = delete;

  // Before the first microbatch of a step, and after each.
  void begin();
  void add();

  // Since begin(): the mean over microbatches of the layers' losses times their weights; the sum of
  // the losses of multi-token prediction.
  double aux_loss() const { return aux_sum_ / static_cast<double>(added_); }
  double mtp_sum() const { return mtp_sum_; }
  // Losses by name, without weights, then metrics: one number per layer, and where a layer has
  // many, their mean and maximum.
  std::vector<AuxScalar> scalars() const;

  // Since begin(), of a metric of which microbatches' maximum counts; empty where there is none.
  std::vector<LayerValues> maxima(std::string_view name) const;

  // What the task tells, since begin().
  std::vector<AuxScalar> task_sums() const;

  // Changes the parameters, by the mean of each update over microbatches.
  void apply(const TrainState& state) const;

 private:
  struct Named {
    program::BoundProgram::NamedOutput output;
    std::vector<float> latest;
    std::vector<double> total;
  };
  struct Change {
    decoder::ParameterUpdate update;
    bool frozen = false;
    std::vector<float> latest;
    std::vector<double> total;
  };

  program::BoundProgram& program_;
  std::int64_t added_ = 0;
  float aux_ = 0, mtp_ = 0;
  double aux_sum_ = 0, mtp_sum_ = 0;
  std::vector<Named> named_;
  std::vector<Change> changes_;
};

}  // namespace lamina::train
