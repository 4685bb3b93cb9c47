// How well a model predicts a text: the sums of EvalStep over all rows of a data set.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "data/dataset.h"
#include "text/tokenizer.h"
#include "train/eval_step.h"

namespace lamina::train {

struct Evaluation {
  EvalSums sums;
  std::int64_t num_bytes = 0;  // of the text that the labels stand for
  std::uint64_t num_rows = 0;

  double loss() const { return sums.mean_loss(); }
  double bits_per_byte() const {
    return num_bytes ? sums.loss / std::log(2.0) / static_cast<double>(num_bytes) : 0;
  }
};

// `weights`: one pointer for each parameter, as Weights::load() gives them for `dtype`; at most
// `batch_rows` rows are computed together.
Evaluation evaluate(const decoder::Model& model, std::span<void* const> weights,
                    const data::Dataset& rows, const text::Tokenizer& tokenizer, DType dtype,
                    std::int64_t batch_rows, const Backend& backend);

}  // namespace lamina::train
