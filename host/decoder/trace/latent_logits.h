// The largest logits of latent attention and the matrices that make them: what QK-clip needs of a
// block. Private to decoder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decoder/trace/block_graph.h"

namespace lamina::decoder {

struct LatentLogits {
  Tensor top;  // f32[heads]
  BlockGraph::QueryKey matrices;
};

// Of what trace_op() gave for latent_attention; adds nodes. RefusedOption where the queries are not
// the product of one matrix among `params`, or the keys are not made by one of them.
LatentLogits latent_logits(Graph& graph, Tensor result,
                           const std::vector<BlockGraph::Param>& params);

}  // namespace lamina::decoder
