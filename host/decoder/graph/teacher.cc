// What a teacher tells of next tokens, and how far a model is from that.
#include "decoder/graph/assembler.h"

namespace lamina::decoder {
namespace {

// What the likeliest tokens leave is one outcome more. f32 knows it to 1e-7; where that is all
// there is, its logarithm would be noise.
constexpr double kLeastRest = 1e-6;

// 1 less the sums of the rows of exp(logp): [M, 1].
Tensor rest_of(Tensor logp) {
  Tensor rest = ops::shift(-ops::reduce_sum(ops::exp(logp), {1}, true), 1);
  return ops::shift(ops::maximum(rest, ops::zeros_like(rest)), kLeastRest);
}

// KL(p || q) of each row, [M].
Tensor divergence_of(Tensor log_p, Tensor log_q) {
  return ops::reduce_sum(ops::exp(log_p) * (log_p - log_q), {1});
}

}  // namespace

void Assembler::add_teacher_outputs(Tensor x) {
  const TeacherShape& teacher = phase().teacher;
  const auto logp_of = [&](Tensor logits, Tensor of) {
    const double by = 1 / teacher.temperature;
    return ops::scale(of, by) - ops::logsumexp(ops::scale(logits, by), {.dims = {1}, .keep = true});
  };
  if (teacher.top_k == 0) {
    Tensor all = logits(x);
    add_output(Output::teacher_logp, logp_of(all, all));
    return;
  }
  const std::vector<Tensor> likeliest = of_logits(x, [&](Tensor logits) {
    const auto top = ops::top_k(logits, {.k = teacher.top_k});
    return std::vector<Tensor>{logp_of(logits, top.values), top.ids};
  });
  add_output(Output::teacher_logp, likeliest[0]);
  add_output(Output::teacher_ids, likeliest[1]);
}

Tensor Assembler::teacher_input(Input role, DType dtype) {
  const TracePhase& p = phase();
  const std::int64_t k = p.teacher.num_tokens(parts_.config.vocab_size());
  out_.inputs.push_back({role, {}, false, {}});
  return graph().add_input(std::string(role_name(role)), {dtype, {p.batch * p.tokens, k}, {}});
}

// Of the likeliest tokens the head is computed for these alone, and the log-sum-exp comes from the
// walk over the vocabulary that a loss is: logits [M, V] never exist.
Tensor Assembler::top_log_probabilities(Tensor x, Tensor labels, Tensor ids) {
  const registry::HeadSpec& head = parts_.options.head;
  const double by = 1 / phase().teacher.temperature;
  const std::int64_t m = x.dim(0), k = ids.dim(1), d = x.dim(1);
  const DType wide = sum_dtype(x.dtype());
  Tensor weight = parameter(parts_.head_weight()), bias = head_bias();
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
  return ops::slice(logits, 1, 0, k) - lse;
}

Tensor Assembler::divergence(Tensor x, Tensor labels) {
  const TeacherShape& teacher = phase().teacher;
  const DType wide = sum_dtype(x.dtype());
  Tensor rows = ops::as_rows(x), of_rows;
  Tensor log_p = teacher_input(Input::teacher_logp, wide);
  if (teacher.top_k == 0) {
    Tensor scaled = ops::scale(logits(rows), 1 / teacher.temperature);
    of_rows = divergence_of(log_p, scaled - ops::logsumexp(scaled, {.dims = {1}, .keep = true}));
  } else {
    Tensor log_q =
        top_log_probabilities(rows, labels, teacher_input(Input::teacher_ids, DType::i32));
    of_rows = divergence_of(ops::concat({log_p, ops::log(rest_of(log_p))}, {.dim = 1}),
                            ops::concat({log_q, ops::log(rest_of(log_q))}, {.dim = 1}));
  }
  Tensor none = ops::constant(graph(), labels.type(), -1);
  return ops::reduce_sum(of_rows * ops::cast(ops::less(none, labels), wide), {0});
}

}  // namespace lamina::decoder
