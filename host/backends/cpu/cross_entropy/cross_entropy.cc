// Shares rows of logits out to threads, and sums the loss.
#include "backends/cpu/cross_entropy/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/cross_entropy/cross_entropy_simd.h"
#include "backends/cpu/device/isa.h"
#include "backends/cpu/device/threads.h"
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
}

void cross_entropy_add_tile(const CrossEntropyRows& rows, const CrossEntropyTile& tile) {
  LAMINA_ASSERT(is_supported(tile.dtype));
  parallel_ranges(
      rows.num_rows, min_rows(tile.num_columns),
      [&](std::int64_t begin, std::int64_t end) { functions().add_tile(rows, tile, begin, end); });
}

CrossEntropyLoss cross_entropy_loss(const CrossEntropyRows& rows, float z_loss, float* row_loss) {
  CrossEntropyLoss total = {0, 0, 0};
  for (std::int64_t row = 0; row < rows.num_rows; ++row) {
    double loss = 0;
    if (rows.labels[row] != kIgnoredLabel) {
      const double lse =
          static_cast<double>(rows.max[row]) + std::log(static_cast<double>(rows.sum[row]));
      const double z = static_cast<double>(z_loss) * lse * lse;
      loss = lse - static_cast<double>(rows.target[row]) + z;
      total.loss += loss;
      total.z_loss += z;
      ++total.count;
    }
    if (row_loss != nullptr) row_loss[row] = static_cast<float>(loss);
  }
  return total;
}

void cross_entropy_gradient(const CrossEntropyRows& rows, const CrossEntropyTile& tile,
                            const CrossEntropyGradient& gradient) {
  LAMINA_ASSERT(is_supported(tile.dtype) && is_supported(gradient.dtype));
  parallel_ranges(rows.num_rows, min_rows(tile.num_columns),
                  [&](std::int64_t begin, std::int64_t end) {
                    functions().gradient(rows, tile, gradient, begin, end);
                  });
}

}  // namespace lamina::cpu
