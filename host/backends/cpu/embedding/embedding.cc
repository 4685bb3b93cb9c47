// Sorts rows by id, then adds them up.
#include "backends/cpu/embedding/embedding.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/embedding/embedding_simd.h"
#include "backends/cpu/embedding/row_lists.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kMinElementsPerThread = 8192;

std::int64_t min_rows(std::int64_t width) {
  return std::max<std::int64_t>(1, kMinElementsPerThread / std::max<std::int64_t>(1, width));
}

bool is_bf16(DType dtype) {
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  return dtype == DType::bf16;
}

}  // namespace

std::int64_t first_bad_id(const std::int32_t* ids, std::int64_t num_ids, std::int64_t num_rows) {
  for (std::int64_t i = 0; i < num_ids; ++i)
    if (ids[i] < 0 || ids[i] >= num_rows) return i;
  return -1;
}

std::size_t embedding_workspace_bytes(std::int64_t num_ids) {
  return 2 * static_cast<std::size_t>(num_ids) * sizeof(RowOfId);
}

void embedding_scatter_add(const EmbeddingScatterAdd& p) {
  if (p.num_ids == 0) return;
  RowOfId* entries = static_cast<RowOfId*>(p.workspace);
  for (std::int64_t i = 0; i < p.num_ids; ++i) entries[i] = {p.ids[i], i};
  const RowOfId* sorted = sort_by_id(entries, entries + p.num_ids, p.num_ids);
  const EmbeddingAdd add = isa_table<EmbeddingFunctions>().add[is_bf16(p.dy_dtype)];
  const std::byte* dy = static_cast<const std::byte*>(p.dy);
  const std::int64_t row_bytes = p.width * size_bytes(p.dy_dtype);
  const auto starts_group = [&](std::int64_t i) {
    return i == 0 || sorted[i].id != sorted[i - 1].id;
  };
  // Each thread adds the groups of equal ids that begin in its range, to their ends.
  parallel_ranges(p.num_ids, min_rows(p.width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; ++first) {
      if (!starts_group(first)) continue;
      float* to = p.dtable + sorted[first].id * p.width;
      for (std::int64_t i = first; i == first || (i < p.num_ids && !starts_group(i)); ++i)
        add(to, dy + sorted[i].row * row_bytes, p.width);
    }
  });
}

}  // namespace lamina::cpu
