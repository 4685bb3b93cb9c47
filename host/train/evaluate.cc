#include "train/evaluate.h"

#include <algorithm>

#include "core/log.h"

namespace lamina::train {

Evaluation evaluate(const decoder::Model& model, std::span<void* const> weights,
                    const data::Dataset& rows, const text::Tokenizer& tokenizer, DType dtype,
                    std::int64_t batch_rows, const Backend& backend) {
  batch_rows = std::min<std::int64_t>(batch_rows, static_cast<std::int64_t>(rows.num_rows()));
  EvalStep step(model, batch_rows, rows.tokens_per_row(), dtype, true, backend);
  Evaluation out{.num_rows = rows.num_rows()};
  data::DataCursor cursor;
  data::Batch batch;
  for (std::uint64_t done = 0; done < rows.num_rows(); done += batch.num_rows) {
    rows.next(cursor, batch_rows, batch);
    // The last batch is filled up with rows that have been counted already.
    std::uint64_t wanted = std::min<std::uint64_t>(batch.num_rows, rows.num_rows() - done);
    std::fill(batch.labels.begin() + static_cast<std::ptrdiff_t>(wanted) * batch.tokens_per_row,
              batch.labels.end(), data::kIgnoredLabel);
    out.sums += step.run({batch.tokens.data(), batch.labels.data(), batch.positions.data(),
                          batch.segment_ids.data()},
                         weights);
    for (std::int32_t label : batch.labels)
      if (label >= 0)
        out.num_bytes += static_cast<std::int64_t>(tokenizer.token_bytes(label).size());
    log::debug("{} of {} rows, loss so far {:.4f}", done + wanted, rows.num_rows(), out.loss());
  }
  return out;
}

}  // namespace lamina::train
