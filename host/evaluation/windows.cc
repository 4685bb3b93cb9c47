#include "evaluation/windows.h"

#include <algorithm>

#include "core/error.h"
#include "data/packing.h"

namespace lamina::evaluation {
namespace {

std::vector<Window> windows_in(std::uint64_t document, std::uint64_t first_token,
                               std::uint64_t num_labels, std::uint64_t length,
                               std::uint64_t stride) {
  std::vector<Window> out;
  for (std::uint64_t begin = 0, scored = 0; scored < num_labels; begin += stride) {
    const std::uint64_t end = std::min(begin + length, num_labels);
    out.push_back({.document = document,
                   .first_scored = scored + 1,
                   .first_token = first_token + begin,
                   .num_inputs = static_cast<std::uint32_t>(end - begin),
                   .num_scored = static_cast<std::uint32_t>(end - scored)});
    scored = end;
  }
  return out;
}

// Writes one row; positions after the window are padding.
void write(const data::TokenView& tokens, const Window& window, std::size_t row,
           data::Batch& batch) {
  const auto width = static_cast<std::size_t>(batch.tokens_per_row);
  const std::size_t at = row * width, length = window.num_inputs;
  std::vector<std::int32_t> ids(length + 1);
  tokens.tokens.copy(window.first_token, ids);
  for (std::size_t i = 0; i < width; ++i) {
    const bool used = i < length;
    batch.tokens[at + i] = used ? ids[i] : 0;
    batch.labels[at + i] =
        used && i >= length - window.num_scored ? ids[i + 1] : data::kIgnoredLabel;
    batch.segment_ids[at + i] = used ? 1 : 0;
    batch.positions[at + i] = used ? static_cast<std::int32_t>(i) : 0;
  }
}

}  // namespace

RowsOfWindow rows_of(const data::Dataset& dataset) {
  return {.num_rows = dataset.num_rows(),
          .tokens_per_row = dataset.tokens_per_row(),
          .read = [&dataset](std::uint64_t first, std::int64_t count, data::Batch& batch) {
            dataset.read({.index = first}, 0, count, batch);
          }};
}

RowsOfWindow windows_of(data::TokenView tokens, std::int64_t window_tokens, std::int64_t stride) {
  LAMINA_ASSERT(stride >= 1 && stride <= window_tokens);
  RowsOfWindow out;
  const auto& begin = tokens.document_begin;
  for (std::size_t d = 0; d < tokens.num_documents(); ++d) {
    const std::uint64_t length = begin[d + 1] - begin[d];
    if (length < 2) continue;  // no token follows another
    for (const Window& window :
         windows_in(d, begin[d], length - 1, static_cast<std::uint64_t>(window_tokens),
                    static_cast<std::uint64_t>(stride))) {
      out.windows.push_back(window);
      out.tokens_per_row = std::max<std::int64_t>(out.tokens_per_row, window.num_inputs);
    }
  }
  out.num_rows = out.windows.size();
  out.read = [tokens = std::move(tokens), windows = out.windows, width = out.tokens_per_row](
                 std::uint64_t first, std::int64_t count, data::Batch& batch) {
    batch.num_rows = count;
    batch.tokens_per_row = width;
    for (auto* field : {&batch.tokens, &batch.labels, &batch.segment_ids, &batch.positions})
      field->resize(static_cast<std::size_t>(count * width));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      write(tokens, windows[(first + i) % windows.size()], i, batch);
  };
  return out;
}

}  // namespace lamina::evaluation
