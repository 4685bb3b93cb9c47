// The auxiliary losses, metrics and updates of layers in a training step: their means over
// microbatches, and the updates themselves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/stack/parameter.h"
#include "program/bound_program.h"
#include "train/optimizer/weight_changes.h"

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
  // REQUIRES: both outlive this.
  AuxValues(const program::BoundProgram& program, const decoder::ParameterTable& parameters);
  AuxValues(const AuxValues&) = delete;
  AuxValues& operator=(const AuxValues&) = delete;

  // Call begin() before the first microbatch of a step, and add() after each.
  void begin();
  void add();
  // Adds the values of another part of the step. REQUIRES: both have the same model.
  void add(const AuxValues& other);

  // Returns losses by name, without weights, then metrics: one number per layer; if a layer has
  // many elements, their mean and maximum.
  std::vector<AuxScalar> scalars() const;

  // Returns the largest values since begin() of a metric with Reduce::max; empty if there is none.
  std::vector<LayerValues> maxima(std::string_view name) const;

  // Returns the sums of Output::task_sum since begin().
  std::vector<AuxScalar> task_sums() const;

  // Changes the parameters by the mean of each update over microbatches.
  void apply(WeightChanges& weights) const;

 private:
  struct Named {
    program::BoundProgram::NamedOutput output;
    std::vector<double> total;
  };
  struct Change {
    decoder::ParameterUpdate update;
    bool frozen = false;
    std::size_t output = 0, element = 0;  // of the program, and of the output's first dim
    std::vector<double> total;
  };
  bool takes_largest(const Named& named) const;

  const program::BoundProgram& program_;
  std::int64_t added_ = 0;
  std::vector<Named> named_;
  std::vector<Change> changes_;
};

}  // namespace lamina::train
