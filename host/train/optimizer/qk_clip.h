// QK-clip: keeps attention's logits below a threshold by scaling query and key matrices. Kimi Team
// 2025 (K2), section 2.1; with latent attention as there and in MaxText.
#pragma once

#include <vector>

#include "config/sections.h"
#include "decoder/roles/model_graph.h"
#include "train/metrics/aux_values.h"
#include "train/optimizer/weight_changes.h"

namespace lamina::train {

class QkClip {
 public:
  // For a graph with GraphFeatures::max_logits. Does nothing without optimizer.qk_clip.
  QkClip(std::vector<decoder::QueryKeyMatrices> matrices, const decoder::ParameterTable& parameters,
         const config::OptimizerSection& config);

  // `logits`: the metric kMaxLogits of a step. For each head with s = threshold / (its largest
  // logit + 1e-6) < 1: rows of query and key matrices without rotary positions times sqrt(s), query
  // rows with them times s. Key rows with them are shared by all heads and stay unchanged, like
  // values and frozen matrices. With optimizer.qk_clip_over = "stack" the largest logit of all
  // layers of the stack counts.
  void apply(WeightChanges& weights, const std::vector<LayerValues>& logits) const;

 private:
  std::vector<double> factors_of(const decoder::QueryKeyMatrices& m, std::int64_t head_rows,
                                 const std::vector<double>& top, bool is_query) const;

  std::vector<decoder::QueryKeyMatrices> matrices_;
  const decoder::ParameterTable& parameters_;
  double threshold_;
  bool over_stack_;
};

}  // namespace lamina::train
