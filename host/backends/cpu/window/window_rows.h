// The tokens that a row of window_pool is made of, and their weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

// Sizes of a use of window_pool.
struct WindowSizes {
  std::int64_t batch, tokens, channels;  // of values
  std::int64_t windows, width;           // of the rows; width is channels, or half of them
  std::int64_t ratio;
  bool overlap;

  explicit WindowSizes(const NodeView& n)
      : batch(n.type(0).dim(0)),
        tokens(n.type(0).dim(1)),
        channels(n.type(0).dim(2)),
        windows(n.type(3).dim(1)),
        width(n.i("overlap") ? channels / 2 : channels),
        ratio(n.i("ratio")),
        overlap(n.i("overlap") != 0) {}
};

// Calls fn(token, place in bias, first channel) for every token of the window that ends at `end`;
// the window before takes part when there is one in the document.
template <typename Fn>
void for_each_slot(const WindowSizes& s, std::int64_t end, std::int64_t start, Fn fn) {
  const std::int64_t first = end - s.ratio + 1;
  if (s.overlap && start > 0)
    for (std::int64_t i = 0; i < s.ratio; ++i) fn(first - s.ratio + i, i, std::int64_t{0});
  for (std::int64_t i = 0; i < s.ratio; ++i) fn(first + i, i, s.channels - s.width);
}

}  // namespace lamina::cpu
