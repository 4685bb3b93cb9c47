// Distributes rows of logits over threads.
#include "backends/cpu/cross_entropy/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

const CrossEntropyFunctions& functions() { return isa_table<CrossEntropyFunctions>(); }

bool is_supported(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

std::int64_t min_rows(std::int64_t columns) {
  return std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, columns));
}

}  // namespace

void cross_entropy_begin(const CrossEntropyRows& rows) {
  std::fill_n(rows.max, rows.num_rows, -INFINITY);
  std::fill_n(rows.sum, rows.num_rows, 0.0f);
  std::fill_n(rows.target, rows.num_rows, 0.0f);
  if (rows.total) std::fill_n(rows.total, rows.num_rows, 0.0f);
}

void cross_entropy_add_tile(const CrossEntropyRows& rows, const CrossEntropyTile& tile) {
  LAMINA_ASSERT(is_supported(tile.dtype));
  parallel_ranges(
      rows.num_rows, min_rows(tile.num_columns),
      [&](std::int64_t begin, std::int64_t end) { functions().add_tile(rows, tile, begin, end); });
}

void cross_entropy_with_gradient(const CrossEntropyRows& rows, const CrossEntropyTile& tile,
                                 const CrossEntropyGradient& gradient) {
  LAMINA_ASSERT(is_supported(tile.dtype) && is_supported(gradient.dtype));
  parallel_ranges(rows.num_rows, min_rows(tile.num_columns),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) {
                      functions().add_tile(rows, tile, row, row + 1);
                      functions().gradient(rows, tile, gradient, row, row + 1);
                    }
                  });
}

}  // namespace lamina::cpu
