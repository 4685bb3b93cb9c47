#include "decoder/rewrite/rewrites.h"

#include <algorithm>
#include <array>

#include "lamina/names.h"

namespace lamina::decoder {

std::span<const Rewrite* const> rewrites() {
  // Chains of ops must be found before adapters replace them by sums, and feed-forwards changed
  // before dropout zeroes their results. MoBA reads the attributes that a kind of attention sets.
  static constexpr std::array kAll = {&kAttentionInputs,  &kFeedForward,   &kDropout,
                                      &kAttentionKind,    &kAttentionCap,  &kRotaryPositions,
                                      &kBlockAttention,   &kRandomRouting, &kAdapter,
                                      &kAttentionDropout, &kQkClip};
  return kAll;
}

BlockParts block_parts(const Recording& recording) {
  BlockParts out;
  const Graph& graph = recording.graph();
  for (NodeId id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.node(id);
    const OpFacts& facts = node.op->def->facts;
    out.attention |= facts.attends == Attends::to_heads || facts.attends == Attends::to_latents;
    out.rotations |= facts.rotates;
    if (facts.product == Product::rows)
      out.feed_forward |= is_last_matrix(recording, matrix_product(graph, node.outputs[0])->weight);
    out.router |= chooses_experts(recording, id);
  }
  return out;
}

bool is_last_matrix(const Recording& recording, ValueId weight) {
  const registry::ParamDesc* param = recording.param(weight);
  return param && param->axes.size() == 2 && param->axes[1] == intern_axis(LAMINA_AXIS_MLP);
}

const AttrValue& attr(const Node& node, std::string_view name) {
  return node.attrs[static_cast<std::size_t>(node.op->attr_index(name))];
}

}  // namespace lamina::decoder
