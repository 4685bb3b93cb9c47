// What preferences are compared with: the log-probability of each answer by the weights that a run
// begins with. Computed once, before the first step, and kept.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "decoder/model.h"
#include "runtime/backend.h"
#include "train/optimizer/train_state.h"

namespace lamina::train {

// The file of a checkpoint.
inline constexpr std::string_view kReferenceFile = "reference.bin";

// By row of a data set, as data::Batch::rows numbers them, and by segment.
struct Reference {
  std::vector<float> train, validation;

  // As a file, with a checksum. Nothing for one that is damaged, or has other sizes.
  std::string bytes() const;
  static bool read(std::string_view bytes, std::size_t num_train, std::size_t num_validation,
                   Reference& out);
};

// f32[num_rows, S] of all rows. `used` and `dtype` as train/eval_step.h has them; `between` is
// called after each batch and may throw to stop.
std::vector<float> log_probabilities(const decoder::Model& model,
                                     std::span<const ConstTensorRef> used,
                                     const data::Dataset& rows, std::int64_t batch_rows,
                                     DType dtype, const Backend& backend,
                                     const std::function<void()>& between);

// Changes with whatever the numbers depend on: weights, data, and the type that is computed in. An
// adapter that adds nothing yet does not count.
std::string reference_key(const decoder::Model& model, const TrainState& state,
                          const std::string& model_file, const std::string& data_fingerprint,
                          DType dtype);

}  // namespace lamina::train
