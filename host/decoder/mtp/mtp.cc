#include "decoder/mtp/mtp.h"

#include "core/error.h"
#include "decoder/graph/embedding.h"
#include "decoder/graph/head.h"

namespace lamina::decoder {
namespace {

// Returns x[..., B, T] shifted by one token: element t of the result is element t + 1 if `together`
// [B, T] marks both as tokens of one document (null: always), else `fill`.
Tensor shifted(Tensor x, Tensor together, double fill) {
  const int last = x.shape().ndim() - 1;
  const std::int64_t tokens = x.dim(last);
  Shape column = x.shape();
  column[last] = 1;
  Tensor edge = ops::constant(*x.graph, {x.dtype(), column, {}}, fill);
  Tensor next =
      tokens > 1 ? ops::concat({ops::slice(x, last, 1, tokens - 1), edge}, {.dim = last}) : edge;
  if (!together) return next;
  return ops::select(together, next, ops::constant(*x.graph, x.type(), fill));
}

// Runs the blocks; calls visit(depth, state, head's input, labels) for each.
template <typename Visit>
void for_each_depth(ModelBuilder& b, Tensor hidden, Tensor labels, Visit visit) {
  const registry::MtpSpec& spec = b.to.parts().options.mtp;
  const TracePhase& phase = b.to.phase();
  Tensor tokens = b.to.host_input(Input::tokens), positions = b.to.host_input(Input::positions);
  Tensor segments = phase.segments ? b.to.host_input(Input::segments) : Tensor{}, own = segments;
  Tensor override_index =
      phase.embedding_overrides.count > 0 ? b.to.host_input(Input::override_index) : Tensor{};
  Tensor places = phase.positions_3d ? b.to.host_input(Input::positions_3d) : Tensor{};
  Tensor h = hidden;
  if (spec.carries) h = b.stack.last_carry();
  if (spec.normed_hidden) h = final_norm(b.to, hidden);
  for (std::int64_t j = 0; j < spec.depth; ++j) {
    // Documents are shifted with the tokens; 0 is padding and never a document.
    Tensor together;
    if (segments) {
      Tensor next = shifted(segments, {}, 0);
      if (spec.chained) own = segments;
      Tensor padding = ops::equal(own, ops::zeros_like(own));
      Tensor never = ops::constant(b.to.graph(), own.type(), -1);
      together = ops::equal(ops::select(padding, never, own), next);
      segments = next;
    }
    tokens = shifted(tokens, together, 0);
    positions = shifted(positions, together, 0);
    if (labels) labels = shifted(labels, together, -1);
    Tensor embedding = embed(b.to, tokens, positions, -1 - 2 * j);
    if (override_index) {
      override_index = shifted(override_index, together, -1);
      embedding = with_embedding_overrides(b.to, embedding, override_index);
    }
    std::map<Input, Tensor> instead;
    if (spec.shifted_positions) {
      instead[Input::positions] = positions;
      if (places) instead[Input::positions_3d] = places = shifted(places, together, 0);
    }
    std::vector<Tensor> results = b.runner.run_once(b.blocks.mtp(), fmt::format("mtp.{}.", j),
                                                    phase.num_layers + j, {h, embedding}, instead);
    h = results[0];
    const Tensor normed = spec.final_norm ? final_norm(b.to, results[1]) : results[1];
    visit(j, h, for_head(b.to, normed, 1 + j), labels);
  }
}

}  // namespace

double mtp_weight(const ModelParts& parts, std::int64_t depth) {
  const registry::MtpSpec& spec = parts.options.mtp;
  if (spec.weight_key.empty()) return 1;
  const config::Entry* entry = parts.config.values().find(spec.weight_key);
  if (!entry) return 1;
  if (!entry->value.get_if<config::List>()) return parts.config.values().number(spec.weight_key);
  const config::List& list = *entry->value.get_if<config::List>();
  if (static_cast<std::int64_t>(list.size()) != spec.depth)
    user_error(ExitCode::usage, entry->origin.text,
               "'{}' has {} weights; multi-token prediction has {} depths", spec.weight_key,
               list.size(), spec.depth);
  return *list[static_cast<std::size_t>(depth)].get_if<double>();
}

Tensor mtp_loss(ModelBuilder& b, Tensor hidden) {
  const TracePhase& phase = b.to.phase();
  Tensor labels = ops::reshape(b.to.host_input(Input::labels), {phase.batch, phase.tokens});
  Tensor total;
  for_each_depth(b, hidden, labels, [&](std::int64_t j, Tensor, Tensor x, Tensor shifted_labels) {
    const Tensor row_labels = ops::reshape(shifted_labels, {phase.batch * phase.tokens});
    Tensor loss = ops::scale(token_losses(b.to, x, row_labels).loss, mtp_weight(b.to.parts(), j));
    total = total ? total + loss : loss;
  });
  return total;
}

void add_mtp_agreement(ModelBuilder& b, Tensor hidden, Tensor x) {
  const TracePhase& phase = b.to.phase();
  const Shape shape{phase.batch, phase.tokens};
  Tensor labels = ops::reshape(b.to.host_input(Input::labels), shape);
  // Compares with the model's own choice, in the document of that token.
  Tensor main = ops::reshape(choices(b.to, x), shape);
  std::vector<Tensor> counted, agreed;
  for_each_depth(
      b, hidden, labels, [&](std::int64_t, Tensor, Tensor normed, Tensor shifted_labels) {
        main = shifted(main, {}, -1);
        Tensor ones = ops::constant(b.to.graph(), {DType::f32, shape, {}}, 1);
        Tensor none = ops::zeros_like(ones);
        Tensor uncounted = ops::less(shifted_labels, ops::zeros_like(shifted_labels));
        Tensor weight = ops::select(uncounted, none, ones);
        Tensor same = ops::equal(ops::reshape(choices(b.to, normed), shape), main);
        auto sum = [](Tensor t) { return ops::reshape(ops::reduce_sum(t, {0, 1}), {1}); };
        counted.push_back(sum(weight));
        agreed.push_back(sum(ops::select(same, weight, none)));
      });
  b.to.add_output(Output::mtp_counted, ops::joined(counted));
  b.to.add_output(Output::mtp_agreed, ops::joined(agreed));
}

void add_mtp_outputs(ModelBuilder& b, Tensor hidden) {
  const TracePhase& phase = b.to.phase();
  std::vector<Tensor> states, normed, of_heads;
  auto element = [](Tensor x) {
    return ops::reshape(ops::cast(x, DType::f32), x.shape().with_leading(1));
  };
  for_each_depth(b, hidden, {}, [&](std::int64_t, Tensor h, Tensor x, Tensor) {
    states.push_back(element(h));
    normed.push_back(element(x));
    of_heads.push_back(ops::reshape(
        logits(b.to, x), {1, phase.batch, phase.tokens, b.to.parts().config.vocab_size()}));
  });
  b.to.add_output(Output::mtp_hidden, ops::joined(states));
  b.to.add_output(Output::mtp_normed, ops::joined(normed));
  b.to.add_output(Output::mtp_logits, ops::joined(of_heads));
}

}  // namespace lamina::decoder
