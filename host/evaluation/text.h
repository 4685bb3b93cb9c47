// Loss of a model on a text: sums over rows, and the log probability of each token.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>

#include "evaluation/windows.h"
#include "text/tokenizer.h"
#include "train/loop/eval_step.h"

namespace lamina::evaluation {

struct TextResult {
  train::EvalSums sums;
  std::int64_t num_bytes = 0;  // of the labels' text
  std::uint64_t num_rows = 0;

  double loss() const { return sums.mean_loss(); }
  double bits_per_byte() const {
    return num_bytes ? sums.loss / std::log(2.0) / static_cast<double>(num_bytes) : 0;
  }
};

struct Computing {
  DType dtype = DType::bf16;
  std::int64_t batch_rows = 8;  // computed together, at most
};

// Callbacks during the evaluation.
struct Events {
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};  // may throw to stop
  // Called per row with the labels that count and their log probabilities, in order.
  std::function<void(std::uint64_t row, std::span<const std::int32_t> labels,
                     std::span<const float> logprobs)>
      scored = {};
};

// Returns how many of the rows are computed together.
std::int64_t rows_together(const RowsOfWindow& rows, const Computing& computing);

// The graph that evaluate_text() runs.
decoder::ModelGraph text_graph(const decoder::Model& model, const RowsOfWindow& rows,
                               const Computing& computing);

// `weights`: one pointer per parameter, as Weights::load() returns them for the type. REQUIRES:
// there are rows.
TextResult evaluate_text(const decoder::Model& model, std::span<const ConstTensorRef> weights,
                         const RowsOfWindow& rows, const text::Tokenizer& tokenizer,
                         const Computing& computing, const Backend& backend,
                         const Events& events = {});

}  // namespace lamina::evaluation
