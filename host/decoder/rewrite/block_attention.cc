// moba_chunk_size and moba_topk: adds a mask of the chunks that each query sees, computed from
// queries and keys (mixture of block attention).
#include <fmt/format.h>

#include "config/model_keys.h"
#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"
#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

namespace in = operand::attention;

bool wanted(const TracePhase& phase) { return phase.options.moba_chunk > 0; }

[[noreturn]] void refuse_chunks(std::string why) {
  refuse_option(fmt::format("model.{}", config::kMobaChunk), std::move(why));
}

void apply(Recording& recording, const BlockContext& context) {
  const BlockOptions& options = context.phase.options;
  Rewriter r(recording, context);
  r.run([&](NodeId id) {
    const Node& node = r.from().node(id);
    const Attends attends = node.op->def->facts.attends;
    if (attends == Attends::to_latents)
      refuse_chunks(fmt::format("the attention of this model is {}, which chooses its keys itself",
                                node.op->name));
    if (attends != Attends::to_heads) return false;
    if (node.inputs[in::kK] == kNoValue)
      refuse_chunks("a layer of this model reads the keys of another");
    if (node.int_attr("chunk") != 0)
      refuse_chunks("a layer of this model sees the chunk of its token alone");
    if (node.inputs[in::kMask] != kNoValue)
      refuse_chunks("the attention of this model already has a mask");
    r.refuse_in_scope();
    std::optional<registry::StateDesc>* state = r.state(id);
    if (state && *state) (*state)->window = (*state)->chunk = 0;  // all keys stay
    std::vector<Tensor> operands = r.operands(id);
    operands[in::kMask] = ops::moba_mask({.q = operands[in::kQ], .k = operands[in::kK]},
                                         {.chunk = options.moba_chunk, .k = options.moba_top_k});
    r.remember(operands[in::kMask], *state);
    r.copy(id, operands);
    return true;
  });
}

}  // namespace

constinit const Rewrite kBlockAttention = {"mixture of block attention", wanted, apply};

}  // namespace lamina::decoder
