// The auxiliary losses and metrics of layers, and their outputs. Private to decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decoder/graph/graph_builder.h"

namespace lamina::decoder {

// An auxiliary loss or metric, stacked over the layers that have it: its first dim runs over
// `layers`.
struct AuxValue {
  registry::AuxDesc desc;
  std::vector<std::int64_t> layers;
  Tensor value = {}, other = {};
};

// Collects values while layers run. Tensors are set when the scan of their layers is complete.
class AuxOutputs {
 public:
  // Returns the number of a new value, whose tensors are set later.
  std::size_t add(AuxValue value);
  AuxValue& operator[](std::size_t number) { return values_[number]; }

  // Makes outputs of all values. Returns the sum of the losses times their weights, []; null if
  // there is none. PluginError: layers declare a name differently.
  Tensor add_outputs(GraphBuilder& to);

 private:
  std::vector<AuxValue> values_;
};

// A number that is computed from a layer's output, with the name of its metric.
struct LayerMetric {
  const char* name;
  Tensor value;  // []
};
// Returns mean, population standard deviation and share of zeros of a layer's output, padding
// included.
std::vector<LayerMetric> layer_metrics(Tensor output);

}  // namespace lamina::decoder
