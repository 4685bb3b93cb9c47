#include "decoder/graph/teacher.h"

#include "decoder/graph/head.h"

namespace lamina::decoder {
namespace {

// Added to the probability of all tokens other than the likeliest. It is known to 1e-7 in f32, so
// the logarithm of a smaller one would be noise.
constexpr double kLeastRest = 1e-6;

// Returns 1 minus the sums of the rows of exp(logp): [M, 1].
Tensor rest_of(Tensor logp) {
  Tensor rest = ops::shift(-ops::reduce_sum(ops::exp(logp), {1}, true), 1);
  return ops::shift(ops::maximum(rest, ops::zeros_like(rest)), kLeastRest);
}

// Returns KL(p || q) of each row, [M].
Tensor divergence_of(Tensor log_p, Tensor log_q) {
  return ops::reduce_sum(ops::exp(log_p) * (log_p - log_q), {1});
}

// Returns the distance between each row of a and of b, [M].
Tensor distances(Tensor a, Tensor b, HiddenDistance kind) {
  const auto sums = [](Tensor x) { return ops::reduce_sum(x, {1}); };
  if (kind == HiddenDistance::mse) {
    Tensor difference = a - b;
    return ops::scale(sums(difference * difference), 1 / static_cast<double>(a.dim(1)));
  }
  // For a vector of length 0, the cosine with any other is 0.
  constexpr double kLeastLength = 1e-6;
  const auto length = [&](Tensor x) {
    Tensor squared = sums(x * x);
    Tensor least = ops::constant(*x.graph, squared.type(), kLeastLength * kLeastLength);
    return ops::sqrt(ops::maximum(squared, least));
  };
  return ops::shift(-(sums(a * b) / (length(a) * length(b))), 1);
}

// True for labels that count.
Tensor counted(Tensor labels) {
  return ops::less(ops::constant(*labels.graph, labels.type(), -1), labels);
}

// Returns the sum of the rows of x[M] whose label counts.
Tensor sum_of_counted(Tensor x, Tensor labels) {
  return ops::reduce_sum(x * ops::cast(counted(labels), x.dtype()), {0});
}

// Returns the output of a layer: [M, W].
Tensor rows_of(const TracePhase& phase, Tensor x) {
  const std::int64_t num_tokens = phase.batch * phase.tokens;
  return ops::reshape(ops::cast(x, sum_dtype(x.dtype())),
                      {num_tokens, x.type().num_elements() / num_tokens});
}

Tensor teacher_input(GraphBuilder& to, Input role, const Type& type) {
  return to.add_input(std::string(role_name(role)), type, {role, {}, false, {}});
}

// Computes the head only for the likeliest tokens. Their log-sum-exp comes from the pass over the
// vocabulary that computes the loss, so logits [M, V] never exist.
Tensor top_log_probabilities(GraphBuilder& to, Tensor x, Tensor labels, Tensor ids) {
  const registry::HeadSpec& head = to.parts().options.head;
  const double by = 1 / to.phase().teacher.temperature;
  const std::int64_t m = x.dim(0), k = ids.dim(1), d = x.dim(1);
  const DType wide = sum_dtype(x.dtype());
  Tensor weight = to.parameter(to.parts().head_weight()), bias = head_bias(to);
  // cap(z) / T is the cap of z / T at cap / T.
  const auto sums =
      ops::cross_entropy(x, weight, labels, bias ? ops::scale(bias, by) : Tensor{},
                         {.soft_cap = head.soft_cap * by, .logit_scale = head.logit_scale * by});
  Tensor label = ops::maximum(labels, ops::zeros_like(labels));
  Tensor wanted = ops::concat({ids, ops::reshape(label, {m, 1})}, {.dim = 1});
  Tensor logits =
      ops::matmul(ops::embedding(weight, wanted), ops::reshape(x, {m, d, 1}), false, false, wide);
  logits = ops::scale(ops::reshape(logits, {m, k + 1}), head.logit_scale);
  if (bias) {
    Tensor column = ops::reshape(ops::cast(bias, wide), {bias.dim(0), 1});
    logits = logits + ops::reshape(ops::embedding(column, wanted), {m, k + 1});
  }
  if (head.soft_cap != 0) logits = ops::soft_cap(logits, {.cap = head.soft_cap});
  logits = ops::scale(logits, by);
  Tensor lse = ops::reshape(sums.token_loss, {m, 1}) + ops::slice(logits, 1, k, 1);
  Tensor log_q = ops::slice(logits, 1, 0, k) - lse;
  // Rows without a label have no loss, so their lse is wrong. They are not summed, but an overflow
  // of exp(log_q) would make their gradients NaN.
  return ops::select(counted(ops::reshape(labels, {m, 1})), log_q, ops::zeros_like(log_q));
}

}  // namespace

std::vector<std::int64_t> compared_layers(const TracePhase& phase,
                                          std::optional<std::int64_t> ComparedLayers::*side) {
  std::vector<std::int64_t> out;
  for (const ComparedLayers& pair : phase.teacher.layers)
    out.push_back((pair.*side).value_or(phase.num_layers - 1));
  return out;
}

StackPlan stack_with_ends(const ModelParts& parts, const std::vector<std::int64_t>& layers) {
  if (layers.empty()) return parts.stack;
  StackOptions options = parts.stack_options;
  for (const std::int64_t layer : layers) options.breaks.push_back(layer + 1);
  return resolve_stack(parts.family->plan(parts.config), options);
}

void add_teacher_outputs(GraphBuilder& to, Tensor x, const std::vector<Tensor>& layer_outputs) {
  const TeacherShape& teacher = to.phase().teacher;
  std::vector<Tensor> left;
  for (const Tensor output : layer_outputs) {
    Tensor rows = rows_of(to.phase(), output);
    left.push_back(ops::reshape(rows, rows.shape().with_leading(1)));
  }
  if (!left.empty()) to.add_output(Output::teacher_hidden, ops::joined(left));
  const auto logp_of = [&](Tensor logits, Tensor of) {
    const double by = 1 / teacher.temperature;
    return ops::scale(of, by) - ops::logsumexp(ops::scale(logits, by), {.dims = {1}, .keep = true});
  };
  if (teacher.top_k == 0) {
    Tensor all = logits(to, x);
    to.add_output(Output::teacher_logp, logp_of(all, all));
    return;
  }
  const std::vector<Tensor> likeliest = of_logits(to, x, [&](Tensor logits) {
    const auto top = ops::top_k(logits, {.k = teacher.top_k});
    return std::vector<Tensor>{logp_of(logits, top.values), top.ids};
  });
  to.add_output(Output::teacher_logp, likeliest[0]);
  to.add_output(Output::teacher_ids, likeliest[1]);
}

Tensor divergence(GraphBuilder& to, Tensor x, Tensor labels) {
  const TeacherShape& teacher = to.phase().teacher;
  const DType wide = sum_dtype(x.dtype());
  Tensor rows = ops::as_rows(x), of_rows;
  const Shape told{rows.dim(0), teacher.num_tokens(to.parts().config.vocab_size())};
  Tensor log_p = teacher_input(to, Input::teacher_logp, {wide, told, {}});
  if (teacher.top_k == 0) {
    Tensor scaled = ops::scale(logits(to, rows), 1 / teacher.temperature);
    of_rows = divergence_of(log_p, scaled - ops::logsumexp(scaled, {.dims = {1}, .keep = true}));
  } else {
    Tensor log_q = top_log_probabilities(
        to, rows, labels, teacher_input(to, Input::teacher_ids, {DType::i32, told, {}}));
    of_rows = divergence_of(ops::concat({log_p, ops::log(rest_of(log_p))}, {.dim = 1}),
                            ops::concat({log_q, ops::log(rest_of(log_q))}, {.dim = 1}));
  }
  return sum_of_counted(of_rows, labels);
}

Tensor hidden_distance(GraphBuilder& to, Tensor labels, const std::vector<Tensor>& layer_outputs) {
  const std::int64_t num_pairs = std::ssize(layer_outputs);
  const Type row = rows_of(to.phase(), layer_outputs.front()).type();
  Tensor told =
      teacher_input(to, Input::teacher_hidden, row.with(row.shape.with_leading(num_pairs)));
  Tensor sum;
  for (std::int64_t i = 0; i < num_pairs; ++i) {
    Tensor ours = rows_of(to.phase(), layer_outputs[static_cast<std::size_t>(i)]);
    Tensor theirs = ops::reshape(ops::slice(told, 0, i, 1), ours.shape());
    Tensor of_pair = distances(ours, theirs, to.phase().teacher.distance);
    sum = sum ? sum + of_pair : of_pair;
  }
  return sum_of_counted(ops::scale(sum, 1 / static_cast<double>(num_pairs)), labels);
}

}  // namespace lamina::decoder
