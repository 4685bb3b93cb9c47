#include "decoder/graph/deepstack.h"

namespace lamina::decoder {
namespace {

// The index of tokens without an override row. It stays outside of any table with every layer's
// offset, and rows outside of a table are zeros.
constexpr double kNowhere = -0x1p30;

Tensor number(Graph& graph, double value) {
  return ops::constant(graph, {DType::i32, {1, 1}, {}}, value);
}

}  // namespace

bool DeepstackFeatures::at(std::int64_t layer) const {
  const EmbeddingOverrideShape& overrides = to_.phase().embedding_overrides;
  return overrides.count > 0 && layer < overrides.layers;
}

std::vector<std::pair<std::string, Tensor>> DeepstackFeatures::consts() {
  return {{"deepstack_features", to_.host_input(Input::deepstack_features)},
          {"deepstack_index", index()}};
}

Tensor DeepstackFeatures::index() {
  if (index_) return index_;
  Tensor index = to_.host_input(Input::override_index);
  return index_ = ops::select(ops::less(index, number(to_.graph(), 0)),
                              number(to_.graph(), kNowhere), index);
}

// Uses one gather and one sum per layer, also in layers of a scan without features, whose rows are
// beyond the table's end. Adds to each residual stream of x [B, T, K, D], because each begins with
// the embedding.
void DeepstackFeatures::add(const BlockPlacement& place) {
  const TracePhase& phase = to_.phase();
  ScanBuilder& scan = *place.scan;
  Tensor& x = scan.carries()[0];
  InputRole role{Input::layer_index, {}, true, {}};
  for (std::int64_t layer : place.layers) role.values.push_back(static_cast<double>(layer));
  Tensor layer = value_input(to_, place, "layer_index", {DType::i32, {}, {}}, std::move(role));
  Tensor offset = ops::reshape(layer, {1, 1}) *
                  number(scan.body(), static_cast<double>(phase.embedding_overrides.count));
  Tensor features = scan.inner_const(to_.host_input(Input::deepstack_features));
  Tensor rows = ops::embedding(features, scan.inner_const(index()) + offset);  // [B, T, D]
  if (x.shape().ndim() == 4)
    rows = ops::reshape(rows, {phase.batch, phase.tokens, 1, phase.hidden_size});
  x = x + ops::cast(rows, x.dtype());
}

}  // namespace lamina::decoder
