// Features that are added to the output of the first layers, at tokens whose embeddings are
// replaced. Bai et al. 2025, "Qwen3-VL", after Meng et al. 2024, "DeepStack". Private to decoder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "decoder/graph/run_block.h"

namespace lamina::decoder {

class DeepstackFeatures {
 public:
  // REQUIRES: `to` outlives it.
  explicit DeepstackFeatures(GraphBuilder& to) : to_(to) {}

  // True if features are added to the output of this layer.
  bool at(std::int64_t layer) const;
  // Returns the values outside of a scan that add() reads.
  std::vector<std::pair<std::string, Tensor>> consts();
  // Adds the features to carry 0 of the place's scan.
  void add(const BlockPlacement& place);

 private:
  Tensor index();

  GraphBuilder& to_;
  Tensor index_;
};

}  // namespace lamina::decoder
