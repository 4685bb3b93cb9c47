// Changes of weights that the host decides on, computed where the weights are.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "program/host_values.h"
#include "program/tensor_programs.h"
#include "train/optimizer/train_state.h"

namespace lamina::train {

// Each call changes the f32 master of a parameter, computed in f64 and rounded once, and its copy
// in the compute type.
class WeightChanges {
 public:
  // REQUIRES: all outlive it.
  WeightChanges(const decoder::ParameterTable& parameters, const TrainState& state,
                program::ProgramArena& arena);

  // p += change; p = values. One number per element.
  void add(int parameter, std::span<const double> change);
  void assign(int parameter, std::span<const double> values);
  // Multiplies each row by its factor: one per row of the parameter, seen as [rows, last dim].
  void scale_rows(int parameter, std::span<const double> factors);

 private:
  enum class Work { add, assign, scale_rows };
  struct Kind {
    Work work;
    std::int64_t rows, width;
    bool copy;
    auto operator<=>(const Kind&) const = default;
  };
  struct Change {
    std::unique_ptr<Program> program;
    program::HostValues values;
    std::size_t numbers = 0;
  };
  static Graph graph_of(const Kind& kind);
  void run(Work work, int parameter, std::span<const double> numbers);

  const decoder::ParameterTable& parameters_;
  const TrainState& state_;
  program::ProgramArena& arena_;
  std::map<Kind, Change> changes_;
};

}  // namespace lamina::train
