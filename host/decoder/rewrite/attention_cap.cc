// attn_logits_soft_cap: a soft cap of attention's scores.
#include <fmt/format.h>

#include "config/model_keys.h"
#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"

namespace lamina::decoder {
namespace {

bool wanted(const TracePhase& phase) { return phase.options.attention_cap != 0; }

void apply(Recording& recording, const BlockContext& context) {
  Rewriter r(recording, context);
  r.run([&](NodeId id) {
    Node node = r.from().node(id);
    const Attends attends = node.op->def->facts.attends;
    if (attends != Attends::to_heads && attends != Attends::to_latents) return false;
    if (std::get<double>(attr(node, "soft_cap")) != 0)
      refuse_option(fmt::format("model.{}", config::kAttentionCap),
                    "the attention of this model already has a soft cap");
    node.set_attr("soft_cap", context.phase.options.attention_cap);
    r.copy(id, node, r.operands(id));
    return true;
  });
}

}  // namespace

constinit const Rewrite kAttentionCap = {"attention cap", wanted, apply};

}  // namespace lamina::decoder
