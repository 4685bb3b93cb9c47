#include "evaluation/text.h"

#include <algorithm>

#include "core/error.h"

namespace lamina::evaluation {
namespace {

// What the model gives the labels of a row that count.
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

TextResult evaluate_text(const decoder::Model& model, std::span<void* const> weights,
                         const Rows& rows, const text::Tokenizer& tokenizer,
                         const Computing& computing, const Backend& backend, const Events& events) {
  LAMINA_ASSERT(rows.num_rows > 0);
  const auto batch_rows = static_cast<std::int64_t>(
      std::min(static_cast<std::uint64_t>(computing.batch_rows), rows.num_rows));
  train::EvalStep step(model, batch_rows, rows.tokens_per_row, computing.dtype, true, backend,
                       {.token_losses = static_cast<bool>(events.scored)});
  TextResult out{.num_rows = rows.num_rows};
  data::Batch batch;
  for (std::uint64_t done = 0; done < rows.num_rows;) {
    rows.read(done, batch_rows, batch);
    // The last batch is filled up with rows that have been counted already.
    const std::uint64_t wanted =
        std::min(static_cast<std::uint64_t>(batch_rows), rows.num_rows - done);
    std::fill(batch.labels.begin() + static_cast<std::ptrdiff_t>(wanted) * batch.tokens_per_row,
              batch.labels.end(), data::kIgnoredLabel);
    out.sums += step.run({batch.tokens.data(), batch.labels.data(), batch.positions.data(),
                          batch.segment_ids.data()},
                         weights);
    for (std::int32_t label : batch.labels)
      if (label >= 0)
        out.num_bytes += static_cast<std::int64_t>(tokenizer.token_bytes(label).size());
    if (events.scored)
      for (std::size_t row = 0; row < wanted; ++row)
        report_row(done + row, row, batch, step.token_losses(), events);
    done += wanted;
    if (events.progress) events.progress(done, rows.num_rows);
  }
  return out;
}

}  // namespace lamina::evaluation
