// Small programs on the gradients of a training state: they compute norms, and begin and join the
// sums of several microbatches.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/host_values.h"
#include "program/tensor_programs.h"
#include "train/loop/non_finite.h"
#include "train/optimizer/train_state.h"

namespace lamina::train {

// A gradient with a NaN or infinity, and the index of the first one in the parameter.
struct BadGradient {
  int parameter;
  BadElement at;
};

class GradientTensors {
 public:
  // REQUIRES: both outlive it.
  GradientTensors(const decoder::ParameterTable& parameters, program::ProgramArena& arena);

  // Returns the sum of squares of each gradient of a parameter that learns, by parameter, in f64:
  // one program, whose results come to the host together. Rows of a list count once. 0 for
  // parameters that do not learn and for gradients that share memory.
  std::vector<double> sums_of_squares(const TrainState& state);
  // The same for one parameter.
  double sum_of_squares(const TrainState& state, int parameter);
  // Compiles the program of sums_of_squares() for these lists. Returns the bytes of its
  // temporaries.
  std::size_t norms_bytes(const GradientLists& lists);

  // Returns the first of these gradients that is not finite; likewise for one parameter.
  std::optional<BadGradient> first_non_finite(const TrainState& state) const;
  std::optional<BadGradient> first_non_finite(const TrainState& state, int parameter) const;

  // Makes gradients zero, except lists of rows.
  void clear_sums(const TrainState& state);
  // Empties the slots of lists that the first microbatch does not write.
  void clear_later_slots(const TrainState& state);
  // Adds the lists of rows of a later microbatch to the lists of the step.
  void join_lists(const TrainState& state);

  // Replaces the list of rows of a parameter by the sum of other lists, in their order: `ids`
  // i32[slots] and `rows` f32[slots, width] of each.
  struct RowList {
    ConstTensorRef ids, rows;
  };
  void replace_list(const TrainState& state, int parameter, std::span<const RowList> lists);

  // Writes the whole gradient of a list of rows.
  void spread(const TrainState& state, int parameter, const TensorRef& whole);
  // Compiles the program of spread() for lists of `slots` rows. Returns the bytes of its
  // temporaries.
  std::size_t spread_bytes(int parameter, std::int64_t slots);

 private:
  // A list of rows of a table.
  struct List {
    std::int64_t rows, width, slots;
    std::int64_t first_slot = 0;  // the first one to empty
    std::int64_t more_slots = 0;  // of the list that is added to it
    auto operator<=>(const List&) const = default;
  };
  // A program for the sums of squares of gradients with given numbers of elements. Each is an
  // output.
  struct Norms {
    std::unique_ptr<Program> program;
    program::HostValues values;
  };
  Norms& norms(const std::vector<std::int64_t>& elements);
  List list_of(int parameter, std::int64_t slots) const;
  std::vector<int> measured(const TrainState& state) const;
  std::vector<double> measure(const TrainState& state, const std::vector<int>& parameters);

  const decoder::ParameterTable& parameters_;
  program::ProgramArena& arena_;
  program::TensorPrograms<std::int64_t> clear_;
  program::TensorPrograms<List> empty_, join_, spread_;
  std::map<std::vector<std::int64_t>, Norms> norms_;  // by the elements of each gradient
};

}  // namespace lamina::train
