// The log-probabilities that preferences are compared with: of each answer, by the weights at the
// start of a run. Computed once, before the first step, and kept.
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

// Name of the file in a checkpoint.
inline constexpr std::string_view kReferenceFile = "reference.bin";

// Values by row of a data set, as data::Batch::rows numbers them, and by segment.
struct Reference {
  std::vector<float> train, validation;

  // Contents of a file, with a checksum. read() returns false if it is damaged or has other sizes.
  std::string bytes() const;
  static bool read(std::string_view bytes, std::size_t num_train, std::size_t num_validation,
                   Reference& out);
};

// Returns f32[num_rows, S] for all rows. `used` and `dtype` as in train/loop/eval_step.h; `between`
// is called after each batch and may throw to stop.
std::vector<float> log_probabilities(const decoder::Model& model,
                                     std::span<const ConstTensorRef> used,
                                     const data::Dataset& rows, std::int64_t batch_rows,
                                     DType dtype, const Backend& backend,
                                     const std::function<void()>& between);

// Returns a digest of everything that the numbers depend on: weights, data, and the compute type.
// An adapter that adds nothing yet does not count.
std::string reference_key(const decoder::Model& model, const TrainState& state,
                          const std::string& model_file, const std::string& data_fingerprint,
                          DType dtype);

}  // namespace lamina::train
