#include "evaluation/text.h"

#include <algorithm>

#include "core/error.h"
#include "evaluation/label_bytes.h"

namespace lamina::evaluation {
namespace {

// Reports the log probabilities of a row's labels that count.
void report_row(std::uint64_t number, std::size_t row, const data::Batch& batch,
                std::span<const float> losses, const Events& events) {
  const auto width = static_cast<std::size_t>(batch.tokens_per_row);
  std::vector<std::int32_t> labels;
  std::vector<float> logprobs;
  for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
    if (batch.labels[i] < 0) continue;
    labels.push_back(batch.labels[i]);
    logprobs.push_back(-losses[i]);
  }
  events.scored(number, labels, logprobs);
}

}  // namespace

std::int64_t rows_together(const RowsOfWindow& rows, const Computing& computing) {
  return static_cast<std::int64_t>(
      std::min(static_cast<std::uint64_t>(computing.batch_rows), rows.num_rows));
}

decoder::ModelGraph text_graph(const decoder::Model& model, const RowsOfWindow& rows,
                               const Computing& computing) {
  return train::eval_graph(model, rows_together(rows, computing), rows.tokens_per_row,
                           computing.dtype, true);
}

TextResult evaluate_text(const decoder::Model& model, std::span<const ConstTensorRef> weights,
                         const RowsOfWindow& rows, const text::Tokenizer& tokenizer,
                         const Computing& computing, const Backend& backend, const Events& events) {
  LAMINA_ASSERT(rows.num_rows > 0);
  train::EvalStep step(model, rows_together(rows, computing), rows.tokens_per_row, computing.dtype,
                       true, backend);
  TextResult out{.num_rows = rows.num_rows};
  LabelBytes bytes(tokenizer);
  const auto done = [&](std::uint64_t first, std::int64_t count, const data::Batch& batch) {
    for (std::size_t i = 0; i < batch.labels.size(); ++i)
      if (batch.labels[i] >= 0) out.num_bytes += bytes.of(batch.labels[i], batch.tokens[i]);
    const auto num_done = static_cast<std::size_t>(count);
    if (events.scored)
      for (std::size_t row = 0; row < num_done; ++row)
        report_row(first + row, row, batch, step.token_losses(), events);
    if (events.progress) events.progress(first + num_done, rows.num_rows);
  };
  out.sums = train::evaluate_rows(
      step, {.num_rows = rows.num_rows, .read = rows.read, .done = done}, weights);
  return out;
}

}  // namespace lamina::evaluation
