#include "train/loop/eval_step.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace lamina::train {

using decoder::Output;

EvalSums& EvalSums::operator+=(const EvalSums& more) {
  loss += more.loss;
  num_labels += more.num_labels;
  if (task_sums.empty()) {
    task_sums = more.task_sums;
  } else {
    for (std::size_t i = 0; i < more.task_sums.size(); ++i)
      task_sums[i].value += more.task_sums[i].value;
  }
  auto add = [](std::vector<double>& to, const std::vector<double>& from) {
    to.resize(std::max(to.size(), from.size()));
    for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  };
  add(mtp_counted, more.mtp_counted);
  add(mtp_agreed, more.mtp_agreed);
  return *this;
}

double EvalSums::mean_loss() const {
  return loss / static_cast<double>(std::max<std::int64_t>(num_labels, 1));
}

std::vector<AuxScalar> EvalSums::task_means() const {
  std::vector<AuxScalar> out = task_sums;
  for (AuxScalar& mean : out)
    mean.value /= static_cast<double>(std::max<std::int64_t>(num_labels, 1));
  return out;
}

std::vector<double> EvalSums::mtp_acceptance() const {
  std::vector<double> out;
  for (std::size_t i = 0; i < mtp_counted.size() && mtp_counted[i] > 0; ++i)
    out.push_back(mtp_agreed[i] / mtp_counted[i]);
  return out;
}

decoder::ModelGraph eval_graph(const decoder::Model& model, std::int64_t rows, std::int64_t tokens,
                               DType dtype, bool segments, const EvalOutputs& outputs) {
  return outputs.task->loss_graph(model, {rows, tokens, dtype},
                                  {.segments = segments,
                                   .mtp_agreement = outputs.mtp_agreement,
                                   .token_losses = outputs.task->has_perplexity()});
}

EvalStep::EvalStep(const decoder::Model& model, std::int64_t rows, std::int64_t tokens, DType dtype,
                   bool segments, const Backend& backend, const EvalOutputs& outputs)
    : task_(outputs.task),
      shape_{rows, tokens, dtype},
      program_(eval_graph(model, rows, tokens, dtype, segments, outputs), backend),
      arena_(backend.allocate(program_.arena_bytes())) {}

EvalSums EvalStep::run(const program::Microbatch& batch, std::span<const ConstTensorRef> used) {
  program_.bind_parameters(used);
  batch.bind(program_);
  program_.run(*arena_);
  EvalSums out{.loss = program_.loss("loss"),
               .num_labels = task_->count(batch, shape_),
               .mtp_counted = program_.values(Output::mtp_counted),
               .mtp_agreed = program_.values(Output::mtp_agreed)};
  const std::vector<double> losses = program_.values(Output::token_losses);
  token_losses_.assign(losses.begin(), losses.end());
  // In f64, so that the sum does not depend on how many rows are computed together.
  if (!losses.empty()) out.loss = std::accumulate(losses.begin(), losses.end(), 0.);
  for (const auto& output : program_.named_outputs()) {
    LAMINA_ASSERT(output.role == Output::task_sum);
    out.task_sums.push_back({output.name, program_.values(output.index)[0]});
  }
  return out;
}

EvalSums evaluate_rows(EvalStep& step, const EvalRows& rows, std::span<const ConstTensorRef> used) {
  const std::int64_t together = step.shape().batch;
  EvalSums out;
  data::Batch batch;
  for (std::uint64_t first = 0; first < rows.num_rows;) {
    rows.read(first, together, batch);
    const float* reference = rows.reference ? rows.reference(batch) : nullptr;
    const auto wanted = std::min(static_cast<std::uint64_t>(together), rows.num_rows - first);
    const auto filled = static_cast<std::ptrdiff_t>(wanted) * batch.tokens_per_row;
    std::fill(batch.labels.begin() + filled, batch.labels.end(), data::kIgnoredLabel);
    std::fill(batch.segment_ids.begin() + filled, batch.segment_ids.end(), 0);
    out += step.run({batch.tokens.data(), batch.labels.data(), batch.positions.data(),
                     batch.segment_ids.data(), reference},
                    used);
    if (rows.done) rows.done(first, static_cast<std::int64_t>(wanted), batch);
    first += wanted;
  }
  return out;
}

}  // namespace lamina::train
