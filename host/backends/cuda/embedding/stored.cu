// Rows of a table that is stored in blocks, widened by id. Bound by memory: a thread decodes 8
// values and writes them with stores of 16 bytes.
#include "backends/cuda/embedding/params.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/stored/blocks.h"

namespace lamina::cuda {
namespace {

template <typename Format, typename T>
LAMINA_GPU_FUNCTION void widen_rows(const WidenRowsParams& p) {
  constexpr int kPart = 16 / static_cast<int>(sizeof(T));
  const stored::StoredBytes table(p.table);
  const gpu::Global<const std::int32_t> ids(p.ids);
  const gpu::Global<T> to(p.to);
  const std::int64_t units = p.width / 8;
  for (std::int64_t unit = gpu::first_index(); unit < p.count * units; unit += gpu::num_indices()) {
    const std::int64_t id = ids[unit / units], column = unit % units * 8;
    float values[8] = {};
    if (id >= 0 && id < p.num_rows) {
      const std::int64_t block = (id * p.width + column) / Format::kValues;
      Format::widen8(table + block * Format::kBytes, static_cast<int>(column % Format::kValues),
                     values);
    }
    for (int first = 0; first < 8; first += kPart) {
      gpu::Vector<T, kPart> part;
      for (int i = 0; i < kPart; ++i) part.values[i] = gpu::narrow<T>(values[first + i]);
      gpu::store_vector<kPart>(to, unit * 8 + first, part);
    }
  }
}

}  // namespace

#define LAMINA_WIDEN_ROWS(name, Format)                               \
  LAMINA_GPU_KERNEL(embedding_widen_##name##_f32, WidenRowsParams) {  \
    widen_rows<stored::Format, float>(p);                             \
  }                                                                   \
  LAMINA_GPU_KERNEL(embedding_widen_##name##_bf16, WidenRowsParams) { \
    widen_rows<stored::Format, gpu::bfloat16>(p);                     \
  }
LAMINA_STORED_FORMATS(LAMINA_WIDEN_ROWS)
#undef LAMINA_WIDEN_ROWS

}  // namespace lamina::cuda
