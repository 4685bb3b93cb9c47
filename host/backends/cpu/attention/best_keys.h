// Finds the keys with the best scores, by selection instead of sorting.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lamina::cpu {

// Calls keep(s), by rising s, for the k keys with the highest scores among the keys s in [0, count)
// with seen(s), as top_k orders them: NaNs come first, of equal scores the lower index. If there
// are at most k such keys, calls it for all. `scratch` has room for `count` numbers.
template <class Seen, class Keep>
void for_best_keys(const float* scores, std::int64_t count, std::int64_t k, float* scratch,
                   Seen seen, Keep keep) {
  std::int64_t num_seen = 0;
  for (std::int64_t s = 0; s < count; ++s)
    if (seen(s)) scratch[num_seen++] = scores[s];
  if (num_seen <= k) {
    for (std::int64_t s = 0; s < count; ++s)
      if (seen(s)) keep(s);
    return;
  }
  const auto comes_before = [](float a, float b) {
    return a > b || (std::isnan(a) && !std::isnan(b));
  };
  std::nth_element(scratch, scratch + (k - 1), scratch + num_seen, comes_before);
  const float threshold = scratch[k - 1];
  std::int64_t equal = k - std::count_if(scratch, scratch + (k - 1),
                                         [&](float x) { return comes_before(x, threshold); });
  for (std::int64_t s = 0; s < count; ++s)
    if (seen(s) && (comes_before(scores[s], threshold) ||
                    (!comes_before(threshold, scores[s]) && equal-- > 0)))
      keep(s);
}

}  // namespace lamina::cpu
