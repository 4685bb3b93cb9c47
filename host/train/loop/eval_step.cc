#include "train/loop/eval_step.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace lamina::train {

using decoder::Input;
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
  for (std::size_t i = 0; i < mtp_counted.size(); ++i)
    out.push_back(mtp_agreed[i] / std::max(mtp_counted[i], 1.0));
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
      token_losses_(task_->has_perplexity() ? static_cast<std::size_t>(rows * tokens) : 0),
      program_(eval_graph(model, rows, tokens, dtype, segments, outputs), backend),
      mtp_depth_(program_.has(Output::mtp_counted) ? static_cast<std::size_t>(model.mtp_depth())
                                                   : 0),
      arena_(backend.allocate(program_.arena_bytes())) {
  const auto named = program_.named_outputs();
  task_values_.resize(named.size());
  for (std::size_t i = 0; i < named.size(); ++i) {
    LAMINA_ASSERT(named[i].role == Output::task_sum);
    task_sums_.push_back({named[i].name, 0});
    program_.bind_output(named[i].index, &task_values_[i]);
  }
}

EvalSums EvalStep::run(const program::Microbatch& batch, std::span<const ConstTensorRef> used) {
  float loss = 0, z_loss = 0;
  std::vector<float> counted(mtp_depth_), agreed(mtp_depth_);
  program_.bind_parameters(used);
  program_.bind(Output::loss, &loss);
  program_.bind(Output::z_loss, &z_loss);
  if (!token_losses_.empty()) program_.bind(Output::token_losses, token_losses_.data());
  program_.bind(Output::mtp_counted, counted.data());
  program_.bind(Output::mtp_agreed, agreed.data());
  batch.bind(program_);
  program_.run(*arena_);
  for (std::size_t i = 0; i < task_sums_.size(); ++i) task_sums_[i].value = task_values_[i];
  double sum = loss;
  // In f64, so that the sum does not depend on how many rows are computed together.
  if (!token_losses_.empty()) sum = std::accumulate(token_losses_.begin(), token_losses_.end(), 0.);
  return {.loss = sum,
          .num_labels = task_->count(batch, shape_),
          .task_sums = task_sums_,
          .mtp_counted = {counted.begin(), counted.end()},
          .mtp_agreed = {agreed.begin(), agreed.end()}};
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
