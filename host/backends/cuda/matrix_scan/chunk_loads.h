// Loads of one chunk of a recurrence with states at the edges of its chunks, for gradients.
#pragma once

#include "backends/cuda/matrix_scan/products.h"
#include "backends/cuda/matrix_scan/recurrence.h"

namespace lamina::cuda {
namespace {

// Sets document[i], for each token i of a chunk of kC that begins at token t of row b, to the
// number of documents that begin up to it; `size` tokens exist.
template <int kC>
LAMINA_GPU_FUNCTION void count_documents(const Recurrence& r, std::int64_t b, std::int64_t t,
                                         int size, gpu::Shared<std::int32_t> document) {
  const int i = gpu::thread_index();
  if (i >= kC) return;
  int documents = 0;
  for (int j = 0; j <= i && j < size; ++j)
    documents += TokenTile::begins_document(r, b, t + j) ? 1 : 0;
  document[i] = documents;
}

// Value channels [c, c + kW) of a chunk of kC tokens; zeros where there are none.
struct ValueColumns {
  SharedMatrix state, flow;  // [keys, kW]: before the chunk, and the gradient after it
  SharedMatrix v, dy;        // [kC, kW]
};

// `head` counts the heads of the pass; value_row(i) is the place of token i in v and dy.
template <int kC, int kW, typename ValueRow>
LAMINA_GPU_FUNCTION void load_columns(const Recurrence& r, std::int64_t head, std::int64_t chunk,
                                      std::int64_t c, int size, ValueRow value_row,
                                      const ValueColumns& to) {
  struct Item {
    float x = 0, dx = 0;
  };
  const gpu::Global<const float> states(r.states), flows(r.flows);
  const int keys = static_cast<int>(r.key_width), padded = r.lanes * kStateRows;
  const std::int64_t first = (head * r.num_chunks + chunk) * r.value_width;
  const auto edge = [&](int at) {
    const std::int64_t i = c + at / keys, from = (first + i) * padded + at % keys;
    return i < r.value_width ? Item{states[from], flows[from]} : Item{};
  };
  gpu::fetch_then_put(kW * keys, edge, [&](int at, const Item& item) {
    to.state.set(at % keys, at / keys, item.x);
    to.flow.set(at % keys, at / keys, item.dx);
  });
  const gpu::NumberReader v(r.v), dy(r.dy);
  const auto token = [&](int at) {
    const int t = at / kW, i = at % kW;
    const std::int64_t from = value_row(t) + c + i;
    return t < size && c + i < r.value_width ? Item{v[from], dy[from]} : Item{};
  };
  gpu::fetch_then_put(kC * kW, token, [&](int at, const Item& item) {
    to.v.set(at / kW, at % kW, item.x);
    to.dy.set(at / kW, at % kW, item.dx);
  });
}

}  // namespace
}  // namespace lamina::cuda
