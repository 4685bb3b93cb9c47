// Rows that replace the embeddings of placeholder tokens (images and sounds), and per-token
// features that are added to the output of the first layers. Bai et al. 2025, "Qwen3-VL", after
// Meng et al. 2024, "DeepStack".
#include "decoder/graph/assembler.h"

namespace lamina::decoder {
namespace {

// The index of tokens without an override row. It stays outside of any table with every layer's
// offset, and rows outside of a table are zeros.
constexpr double kNowhere = -0x1p30;

Tensor number(Graph& graph, double value) {
  return ops::constant(graph, {DType::i32, {1, 1}, {}}, value);
}

}  // namespace

Tensor Assembler::with_embedding_overrides(Tensor x, Tensor index) {
  Tensor rows = ops::embedding(host_input(Input::embedding_overrides), index);
  Tensor own = ops::less(index, number(graph(), 0));
  return ops::select(ops::reshape(own, {phase().batch, phase().tokens, 1}), x, rows);
}

Tensor Assembler::deepstack_index() {
  if (deepstack_index_) return deepstack_index_;
  Tensor index = host_input(Input::override_index);
  return deepstack_index_ =
             ops::select(ops::less(index, number(graph(), 0)), number(graph(), kNowhere), index);
}

// Uses one gather and one sum per layer, also in layers of a scan without features, whose rows are
// beyond the table's end. Adds to each residual stream of x [B, T, K, D], because each begins with
// the embedding.
void Assembler::add_deepstack_features(const BlockPlacement& place) {
  ScanBuilder& scan = *place.scan;
  Tensor& x = scan.carries()[0];
  InputRole role{Input::layer_index, {}, true, {}};
  for (std::int64_t layer : place.layers) role.values.push_back(static_cast<double>(layer));
  Tensor layer = value_input(place, "layer_index", {DType::i32, {}, {}}, std::move(role));
  Tensor offset = ops::reshape(layer, {1, 1}) *
                  number(scan.body(), static_cast<double>(phase().embedding_overrides.count));
  Tensor features = scan.inner_const(host_input(Input::deepstack_features));
  Tensor rows =
      ops::embedding(features, scan.inner_const(deepstack_index()) + offset);  // [B, T, D]
  if (x.shape().ndim() == 4)
    rows = ops::reshape(rows, {phase().batch, phase().tokens, 1, phase().hidden_size});
  x = x + ops::cast(rows, x.dtype());
}

}  // namespace lamina::decoder
