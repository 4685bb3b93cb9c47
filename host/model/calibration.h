// Second moments of the inputs of a model's products over a text, for quantising with error
// feedback.
//
//   const CalibrationText text = ...;
//   CollectedMoments some =
//       collect_moments(model, weights.pointers(), text, std::vector{3, 4}, {}, backend);
//   for (const InputMoments& moments : some.inputs) ...
//   // some.is_complete: no second call for the parameters that are missing
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "decoder/model.h"
#include "runtime/backend.h"
#include "weights/quantise/symmetric_sums.h"

namespace lamina::model {

// Token ids, in rows of `tokens_per_row`.
struct CalibrationText {
  std::vector<std::int32_t> ids;
  std::int64_t tokens_per_row = 0;

  std::int64_t num_rows() const { return static_cast<std::int64_t>(ids.size()) / tokens_per_row; }
};

// Sums of x_i x_j over the inputs x of one matrix, and the matrices that read them: all rows of a
// parameter, or the rows of one expert.
struct InputMoments {
  struct Reader {
    int parameter;
    std::int64_t group = 0;  // the expert
  };
  std::int64_t num_inputs = 0;
  weights::SymmetricSums sums;
  std::vector<Reader> readers;
};
struct CollectedMoments {
  std::vector<InputMoments> inputs;
  bool is_complete = true;  // false: more inputs were found than there was room for
};

struct CalibrationOptions {
  DType dtype = DType::bf16;  // of the computation
  // The most memory of moments; the first product, with all its experts, gets room in any case.
  std::int64_t most_bytes = std::int64_t{1} << 30;
  // Called before each batch of rows; may throw to stop.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

// Returns for each parameter whether the forward graph up to the head reads it: not the head and
// prediction layers. Tables of tokens, whose inputs are ids, are false, too.
std::vector<bool> read_by_layers(const decoder::Model& model);

// Returns the moments for the inputs of `parameters`, whose matrices are the weights of products,
// in the order of the computation until `most_bytes` are used. A matrix that no product of the
// forward graph reads row by row is in no result. `weights`: plain weights, one pointer per
// parameter, in host memory. REQUIRES: at least one row.
CollectedMoments collect_moments(const decoder::Model& model,
                                 std::span<const ConstTensorRef> weights,
                                 const CalibrationText& text, std::span<const int> parameters,
                                 const CalibrationOptions& options, const Backend& backend);

}  // namespace lamina::model
