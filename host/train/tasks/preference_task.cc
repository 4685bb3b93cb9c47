// The losses of pairs, as graphs over the log-probabilities of segments.
#include <algorithm>

#include "core/error.h"
#include "data/packing.h"
#include "decoder/losses.h"
#include "decoder/roles/roles.h"
#include "ops/tensor.h"
#include "train/loop/task.h"

namespace lamina::train {
namespace {

using decoder::Input;
using decoder::ModelGraph;
using decoder::Output;

std::int64_t num_segments(const decoder::GraphShape& shape) {
  return static_cast<std::int64_t>(data::max_segments(shape.tokens));
}

// Returns the input with that role; adds it unless a block has added it.
Tensor input_of(ModelGraph& graph, Input role, const Type& type) {
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].role == role) return graph.graph.tensor(graph.graph.inputs()[i].value);
  graph.inputs.push_back({role, {}, false, {}});
  return graph.graph.add_input(std::string(decoder::role_name(role)), type);
}

// Numbers about each segment that a graph computes from its token losses, [B, S].
struct Segments {
  Tensor logp, labels;  // the sum over its labels, and their number
};

Segments segments_of(ModelGraph& graph, const decoder::GraphShape& shape) {
  const std::int64_t b = shape.batch, t = shape.tokens, s = num_segments(shape);
  Tensor loss = decoder::take_output(graph, Output::token_losses);
  Tensor ids = input_of(graph, Input::segments, {DType::i32, {b, t}, {}});
  Tensor labels = input_of(graph, Input::labels, {DType::i32, {b * t}, {}});
  const DType wide = loss.dtype();
  Tensor numbers = ops::slice(ops::iota(graph.graph, {.shape = {1, 1, s + 1}, .dim = 2}), 2, 1, s);
  Tensor is_in = ops::cast(ops::equal(ops::reshape(ids, {b, t, 1}), numbers), wide);
  const auto sums = [&](Tensor of_tokens) {
    return ops::reduce_sum(is_in * ops::reshape(of_tokens, {b, t, 1}), {1});
  };
  Tensor none = ops::constant(graph.graph, {DType::i32, {b * t}, {}}, -1);
  return {-sums(loss), sums(ops::cast(ops::less(none, labels), wide))};
}

ModelGraph token_losses(const decoder::Model& model, const decoder::GraphShape& shape,
                        decoder::GraphFeatures features) {
  if (model.options().head.no_loss || !model.is_autoregressive())
    throw UserError(ExitCode::usage,
                    {"data.form",
                     fmt::format("is \"preference\"; family '{}' gives answers no probability",
                                 model.family().name()),
                     {"its tokens are not predicted one after another"}});
  features.segments = features.token_losses = true;
  features.mtp = features.mtp_agreement = false;
  features.losses.clear();
  return model.loss_graph(shape, features);
}

// One number for each pair, [pairs].
struct Pairs {
  Tensor chosen, rejected;
};

class PreferenceTask final : public Task {
 public:
  explicit PreferenceTask(const config::PreferenceSection& section) : section_(section) {}

  bool has_perplexity() const override { return false; }
  bool trains_mtp() const override { return false; }
  bool compares_with_start() const override { return section_.loss != "orpo"; }

  std::int64_t count(const program::Microbatch& batch,
                     const decoder::GraphShape& shape) const override {
    std::int64_t pairs = 0;
    for (std::int64_t row = 0; row < shape.batch; ++row)
      pairs += *std::max_element(batch.segments + row * shape.tokens,
                                 batch.segments + (row + 1) * shape.tokens) /
               2;
    return pairs;
  }

  ModelGraph loss_graph(const decoder::Model& model, const decoder::GraphShape& shape,
                        const decoder::GraphFeatures& features) const override {
    ModelGraph out = token_losses(model, shape, features);
    const std::int64_t pairs = shape.batch * num_segments(shape) / 2;
    const auto pairs_of = [pairs](Tensor of_segments) {
      Tensor both = ops::reshape(of_segments, {pairs, 2});
      const auto side = [&](std::int64_t i) {
        return ops::reshape(ops::slice(both, 1, i, 1), {pairs});
      };
      return Pairs{side(0), side(1)};
    };
    const Segments segments = segments_of(out, shape);
    Tensor one = like(segments.labels, 1);
    const Pairs labels = pairs_of(segments.labels), logp = pairs_of(segments.logp),
                mean = pairs_of(segments.logp / ops::maximum(segments.labels, one));
    Tensor is_pair = above_zero(labels.chosen) * above_zero(labels.rejected);
    Tensor loss;
    Pairs reward;
    if (!compares_with_start()) {
      reward = {ops::scale(mean.chosen, section_.beta), ops::scale(mean.rejected, section_.beta)};
      loss = odds_ratio_loss(mean);
    } else {
      const std::int64_t s = num_segments(shape);
      Tensor reference =
          input_of(out, Input::reference, {segments.logp.dtype(), {shape.batch, s}, {}});
      const Pairs start = pairs_of(reference);
      Tensor chosen = logp.chosen - start.chosen, rejected = logp.rejected - start.rejected;
      reward = {ops::scale(chosen, section_.beta), ops::scale(rejected, section_.beta)};
      if (section_.loss == "ipo") {
        chosen = chosen / ops::maximum(labels.chosen, like(labels.chosen, 1));
        rejected = rejected / ops::maximum(labels.rejected, like(labels.rejected, 1));
        loss = ops::square(ops::shift(chosen - rejected, -1 / (2 * section_.beta)));
      } else {
        loss = sigmoid_loss(reward.chosen - reward.rejected);
      }
    }
    const auto sum_of = [&](Tensor of_pairs) { return ops::reduce_sum(of_pairs * is_pair, {0}); };
    replace_token_losses(out, sum_of(loss));
    const auto tell = [&](const char* name, Tensor of_pairs) {
      out.graph.add_output(name, sum_of(of_pairs));
      out.outputs.push_back({.role = Output::task_sum, .name = name});
    };
    tell("reward_accuracy", above_zero(reward.chosen - reward.rejected));
    tell("reward_margin", reward.chosen - reward.rejected);
    tell("chosen_logp", logp.chosen);
    tell("rejected_logp", logp.rejected);
    return out;
  }

 private:
  static Tensor like(Tensor x, double value) { return ops::constant(*x.graph, x.type(), value); }
  static Tensor above_zero(Tensor x) {
    return ops::cast(ops::less(ops::zeros_like(x), x), x.dtype());
  }
  // Keeps the terms of layers.
  static void replace_token_losses(ModelGraph& graph, Tensor loss) {
    std::vector<decoder::LossSum> terms{
        {{.name = "loss", .report = decoder::LossReport::none}, loss}};
    for (const decoder::LossSum& term : decoder::take_losses(graph))
      if (term.term.count != decoder::LossCount::items) terms.push_back(term);
    decoder::set_losses(graph, terms);
  }
  // -log sigmoid(x)
  static Tensor not_sigmoid(Tensor x) { return ops::softplus(-x); }

  // Rafailov et al. 2023, equation 7; with a probability that labels are wrong: Mitchell 2023.
  Tensor sigmoid_loss(Tensor margin) const {
    const double wrong = section_.label_smoothing;
    if (wrong == 0) return not_sigmoid(margin);
    return ops::scale(not_sigmoid(margin), 1 - wrong) + ops::scale(not_sigmoid(-margin), wrong);
  }

  // Hong et al. 2024, equations 4 to 7, with means over labels.
  Tensor odds_ratio_loss(const Pairs& mean) const {
    const auto log_odds = [](Tensor logp) {
      // An answer that is certain would have infinite odds.
      constexpr double kMostCertain = -1e-6;
      logp = ops::minimum(logp, like(logp, kMostCertain));
      return logp - ops::log(-ops::expm1(logp));
    };
    Tensor ratio = log_odds(mean.chosen) - log_odds(mean.rejected);
    return ops::scale(not_sigmoid(ratio), section_.beta) - mean.chosen;
  }

  config::PreferenceSection section_;
};

}  // namespace

std::shared_ptr<const Task> preference_task(const config::PreferenceSection& section) {
  return std::make_shared<const PreferenceTask>(section);
}

ModelGraph log_probability_graph(const decoder::Model& model, const decoder::GraphShape& shape) {
  ModelGraph out = token_losses(model, shape, {});
  decoder::take_losses(out);
  Tensor logp = segments_of(out, shape).logp;
  out.graph.add_output("segment_logp", logp);
  out.outputs.push_back({.role = Output::segment_logp});
  return out;
}

}  // namespace lamina::train
