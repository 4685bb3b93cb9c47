// attention_dropout_rate: in training, zeroes probabilities of attention at random. This needs
// attention in smaller ops.
#include <fmt/format.h>

#include <vector>

#include "config/model_keys.h"
#include "decoder/rewrite/lower_call.h"
#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"
#include "ops/attention.h"

namespace lamina::decoder {
namespace {

bool wanted(const TracePhase& phase) {
  return phase.training && phase.options.attention_dropout > 0;
}

bool is_attention(const Node& node) {
  const Attends attends = node.op->def->facts.attends;
  return attends == Attends::to_heads || attends == Attends::to_latents;
}

void refuse_in_custom(Recording& recording, const BlockContext& context) {
  Rewriter r(recording, context);
  r.run([&](NodeId id) {
    if (r.in_custom() && is_attention(r.from().node(id)))
      refuse_option(fmt::format("model.{}", config::kAttentionDropout),
                    "a layer of this model has its attention in a custom op, where nothing can be "
                    "drawn");
    return false;
  });
}

void apply(Recording& recording, const BlockContext& context) {
  Rewriter r(recording, context);
  const double rate = context.phase.options.attention_dropout;
  const auto drop = [&](Tensor p) { return r.dropout(p, rate); };
  r.run([&](NodeId id) {
    const Node& node = r.from().node(id);
    if (!is_attention(node)) return false;
    std::vector<Tensor> results = r.graph().add_node_like(node, r.operands(id));
    const auto made_by = [&] { return r.graph().node(r.graph().value(results[0].id).node); };
    Node made = made_by();
    while (made.op->def->facts.attends != Attends::to_heads) {  // other kinds are lowered to it
      results = with_lower_call(r.graph(), made,
                                [&](const LowerCall& call) { return made.op->def->lower(call); });
      made = made_by();
    }
    results = with_lower_call(r.graph(), made,
                              [&](const LowerCall& call) { return ops::attend(call, drop); });
    for (std::size_t i = 0; i < node.outputs.size(); ++i)  // latent attention has no log-sum-exp
      r.set(node.outputs[i], results[i]);
    return true;
  });
}

}  // namespace

constinit const Rewrite kAttentionDropout = {"attention dropout", wanted, refuse_in_custom, apply};

}  // namespace lamina::decoder
