// The parts that build a model's graph, for one call of it. Private to decoder.
//
//   ModelBuilder b(parts, phase);
//   Tensor x = b.stack.run(embedding(b.to), false);
//   b.to.add_output(Output::logits, logits(b.to, final_norm(b.to, x)));
//   return std::move(b.to.out());
#pragma once

#include <optional>
#include <vector>

#include "decoder/graph/layer_stack.h"
#include "decoder/graph/teacher.h"

namespace lamina::decoder {

struct ModelBuilder {
  // `side`: this model's layers in TeacherShape::layers; their outputs are layer_outputs(). Null if
  // the model takes no part in a comparison.
  ModelBuilder(const ModelParts& parts, const TracePhase& phase,
               std::optional<std::int64_t> ComparedLayers::*side = nullptr)
      : blocks(parts, phase),
        to(parts, blocks.phase()),
        compared(side ? compared_layers(blocks.phase(), side) : std::vector<std::int64_t>()),
        runner(to, aux),
        stack(to, blocks, runner, aux, stack_with_ends(parts, compared)) {}
  ModelBuilder(const ModelBuilder&) = delete;
  ModelBuilder& operator=(const ModelBuilder&) = delete;

  // Returns the outputs of the compared layers. REQUIRES: the stack was run.
  std::vector<Tensor> layer_outputs() const {
    std::vector<Tensor> out;
    for (const std::int64_t layer : compared) out.push_back(stack.output_of(layer));
    return out;
  }

  BlockCache blocks;
  GraphBuilder to;
  std::vector<std::int64_t> compared;
  AuxOutputs aux;
  BlockRunner runner;
  LayerStack stack;
};

}  // namespace lamina::decoder
