// Runs the layers of a model: one scan per segment of the stack. Private to decoder.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "decoder/graph/block_cache.h"
#include "decoder/graph/deepstack.h"
#include "decoder/graph/run_block.h"

namespace lamina::decoder {

class LayerStack {
 public:
  // `plan`: the segments. REQUIRES: the others outlive it.
  LayerStack(GraphBuilder& to, BlockCache& blocks, BlockRunner& runner, AuxOutputs& aux,
             StackPlan plan);

  // Runs all layers, from the embedding to the input of the final norm. With `hidden`, the input
  // and the output of each layer become outputs.
  Tensor run(Tensor embedding, bool hidden);
  // Return, after run(), carry 0 after the last layer, before the exit block; and the output of a
  // layer that ends a segment.
  Tensor last_carry() const { return last_carry_; }
  Tensor output_of(std::int64_t layer) const { return outputs_.at(layer); }

 private:
  std::vector<Tensor> engram(std::vector<Tensor> carries, std::int64_t layer);
  std::vector<Tensor> segment(std::vector<Tensor> carries, const std::vector<Tensor>& per_layer,
                              const StackSegment& segment, bool hidden);
  std::vector<std::pair<std::string, Tensor>> consts_of(const StackSegment& segment);
  void add_layer_metrics(const BlockPlacement& place, Tensor output);

  GraphBuilder& to_;
  BlockCache& blocks_;
  BlockRunner& runner_;
  AuxOutputs& aux_;
  StackPlan plan_;
  DeepstackFeatures deepstack_;
  Tensor last_carry_;
  std::map<std::int64_t, Tensor> outputs_;  // of the last layers of segments
};

}  // namespace lamina::decoder
