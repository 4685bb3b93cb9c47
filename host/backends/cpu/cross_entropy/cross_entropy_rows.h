// What cross_entropy and cross_entropy_grad share: the state of a block of rows, and the sums.
#pragma once

#include <cmath>

#include "backends/cpu/cross_entropy/cross_entropy.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

// Memory for the running sums of up to `max_rows` rows, at the start of a workspace.
class CrossEntropyState {
 public:
  explicit CrossEntropyState(std::int64_t max_rows)
      : stride_(aligned(static_cast<std::size_t>(max_rows) * 4)) {}

  std::size_t bytes() const { return 4 * stride_; }

  // Begins a block of rows. The op does not count rows with negative labels: they are ignored, or
  // with `all` still get their sums.
  CrossEntropyRows start(std::byte* workspace, const std::int32_t* labels, std::int64_t num_rows,
                         bool all) const {
    auto floats = [&](int i) {
      return reinterpret_cast<float*>(workspace + static_cast<std::size_t>(i) * stride_);
    };
    auto* own = reinterpret_cast<std::int32_t*>(workspace);
    for (std::int64_t r = 0; r < num_rows; ++r)
      own[r] = labels[r] >= 0 ? labels[r] : all ? 0 : kIgnoredLabel;
    CrossEntropyRows rows{.labels = own,
                          .num_rows = num_rows,
                          .max = floats(1),
                          .sum = floats(2),
                          .target = floats(3)};
    cross_entropy_begin(rows);
    return rows;
  }

 private:
  std::size_t stride_;
};

// The op's first two results, in the order of the rows.
struct CrossEntropySums {
  double loss = 0, z_loss = 0;

  // `lse`, where wanted, gets the log-sum-exp of each row.
  void add(const CrossEntropyRows& rows, const std::int32_t* labels, float* lse) {
    for (std::int64_t r = 0; r < rows.num_rows; ++r) {
      const double row_lse =
          static_cast<double>(rows.max[r]) + std::log(static_cast<double>(rows.sum[r]));
      if (lse) lse[r] = static_cast<float>(row_lse);
      if (labels[r] < 0) continue;
      loss += row_lse - static_cast<double>(rows.target[r]);
      z_loss += row_lse * row_lse;
    }
  }

  void store(void* loss_out, void* z_loss_out) const {
    if (loss_out) *static_cast<float*>(loss_out) = static_cast<float>(loss);
    if (z_loss_out) *static_cast<float*>(z_loss_out) = static_cast<float>(z_loss);
  }
};

// Multiplies the logits of a tile by the op's logit_scale.
inline void scale_tile(const CrossEntropyTile& tile, std::int64_t num_rows, float scale) {
  if (scale == 1) return;
  auto* logits = static_cast<float*>(const_cast<void*>(tile.logits));
  parallel_ranges(num_rows, 1 + 8192 / (1 + tile.num_columns),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r)
                      for (std::int64_t c = 0; c < tile.num_columns; ++c)
                        logits[r * tile.row_stride + c] *= scale;
                  });
}

}  // namespace lamina::cpu
