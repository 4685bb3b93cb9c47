// attention_type: selects the keys that a query sees. Sets the attributes of attention of heads,
// the decode state that they need and, for blocks, the number of each token's block.
#include <fmt/format.h>

#include "config/model_keys.h"
#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"
#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

namespace in = operand::attention;

bool wanted(const TracePhase& phase) {
  return phase.options.attention_kind != AttentionKind::declared;
}

// Returns the block number of each token of the call, from 1: its position in the document divided
// by the block size.
Tensor block_numbers(Rewriter& r, std::int64_t size) {
  const Type one{DType::i32, {1, 1}, {}};
  const Tensor positions = r.host_input(Input::positions);
  return positions / ops::constant(r.graph(), one, static_cast<double>(size)) +
         ops::constant(r.graph(), one, 1);
}

Node with_kind(Node node, const BlockOptions& options) {
  const AttentionKind kind = options.attention_kind;
  const auto span = [&](AttentionKind of) { return kind == of ? options.attention_span : 0; };
  node.set_attr("window", span(AttentionKind::sliding));
  node.set_attr("chunk", span(AttentionKind::chunk));
  node.set_attr("causal", std::int64_t{kind != AttentionKind::full});
  return node;
}

void apply(Recording& recording, const BlockContext& context) {
  const BlockOptions& options = context.phase.options;
  Rewriter r(recording, context);
  r.run([&](NodeId id) {
    const Attends attends = r.from().node(id).op->def->facts.attends;
    if (attends == Attends::to_latents)
      refuse_option(fmt::format("model.{}", options.moba_chunk > 0 ? config::kMobaChunk
                                                                   : config::kAttentionType),
                    fmt::format("the attention of this model is {}, which chooses its keys itself",
                                r.from().node(id).op->name));
    if (attends != Attends::to_heads) return false;
    const Node node = with_kind(r.from().node(id), options);
    if (std::optional<registry::StateDesc>* state = r.state(id); state && *state) {
      (*state)->window = node.int_attr("window");
      (*state)->chunk = node.int_attr("chunk");
    }
    std::vector<Tensor> operands = r.operands(id);
    if (options.attention_kind == AttentionKind::blocks) {
      if (operands[in::kBlocks])
        refuse_option(fmt::format("model.{}", config::kAttentionType),
                      "the attention of this model already has blocks");
      r.refuse_in_scope();
      operands[in::kBlocks] = block_numbers(r, options.attention_span);
    }
    r.copy(id, node, operands);
    return true;
  });
}

}  // namespace

constinit const Rewrite kAttentionKind = {"attention kind", wanted, apply};

}  // namespace lamina::decoder
