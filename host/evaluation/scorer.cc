#include "evaluation/scorer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "core/round_up.h"
#include "data/packing.h"

namespace lamina::evaluation {
namespace {

// Row lengths are multiples of this, so that few programs are compiled.
constexpr std::int64_t kRowStep = 32;

std::int64_t num_inputs(const Continuation& c) {
  return static_cast<std::int64_t>(c.tokens.size()) - 1;
}

void write(const Continuation& c, std::size_t row, data::Batch& batch) {
  const auto width = static_cast<std::size_t>(batch.tokens_per_row);
  for (std::size_t i = 0; i + 1 < c.tokens.size(); ++i) {
    const std::size_t at = row * width + i;
    batch.tokens[at] = c.tokens[i];
    batch.segment_ids[at] = 1;
    batch.positions[at] = static_cast<std::int32_t>(i);
    if (i + 1 >= c.prompt_tokens) batch.labels[at] = c.tokens[i + 1];
  }
}

std::int64_t width_of(std::int64_t longest, const decoder::Model& model) {
  return std::min(round_up(longest, kRowStep), model.max_length().value_or(1 << 30));
}

constexpr bool kMtpAgreement = false;

}  // namespace

decoder::ModelGraph Scorer::largest_graph(const decoder::Model& model,
                                          std::span<const Continuation> continuations,
                                          const Computing& computing) {
  std::int64_t longest = 1;
  for (const Continuation& c : continuations) longest = std::max(longest, num_inputs(c));
  const std::int64_t rows =
      std::min(computing.batch_rows, static_cast<std::int64_t>(continuations.size()));
  return train::eval_graph(model, rows, width_of(longest, model), computing.dtype, true,
                           {.mtp_agreement = kMtpAgreement});
}

std::vector<std::vector<float>> Scorer::score(
    std::span<const Continuation> continuations,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& progress) {
  std::vector<std::size_t> order(continuations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return num_inputs(continuations[i]); });
  std::vector<std::vector<float>> out(continuations.size());
  const auto rows = static_cast<std::size_t>(
      std::min(computing_.batch_rows, static_cast<std::int64_t>(continuations.size())));
  std::optional<train::EvalStep> step;
  data::Batch batch{.num_rows = static_cast<std::int64_t>(rows)};
  for (std::size_t done = 0; done < order.size();) {
    const std::size_t count = std::min(rows, order.size() - done);
    const std::int64_t longest = num_inputs(continuations[order[done]]);
    const std::int64_t width = width_of(longest, model_);
    LAMINA_ASSERT(longest <= width);
    if (width != batch.tokens_per_row) {
      step.emplace(model_, batch.num_rows, width, computing_.dtype, true, backend_,
                   train::EvalOutputs{.mtp_agreement = kMtpAgreement});
      batch.tokens_per_row = width;
    }
    const std::size_t size = rows * static_cast<std::size_t>(width);
    for (auto* field : {&batch.tokens, &batch.segment_ids, &batch.positions})
      field->assign(size, 0);
    batch.labels.assign(size, data::kIgnoredLabel);
    for (std::size_t row = 0; row < rows; ++row)  // a last batch is filled with its first row
      write(continuations[order[done + (row < count ? row : 0)]], row, batch);
    step->run({batch.tokens.data(), batch.labels.data(), batch.positions.data(),
               batch.segment_ids.data()},
              weights_);
    for (std::size_t row = 0; row < count; ++row) {
      const Continuation& c = continuations[order[done + row]];
      LAMINA_ASSERT(c.prompt_tokens >= 1 && c.prompt_tokens < c.tokens.size());
      const auto losses =
          step->token_losses().subspan(row * static_cast<std::size_t>(width) + c.prompt_tokens - 1,
                                       c.tokens.size() - c.prompt_tokens);
      for (float loss : losses) {
        if (std::isnan(loss))
          user_error(ExitCode::numerical, "eval", "the log probability of a token is nan");
        out[order[done + row]].push_back(-loss);
      }
    }
    done += count;
    if (progress) progress(done, order.size());
  }
  return out;
}

}  // namespace lamina::evaluation
