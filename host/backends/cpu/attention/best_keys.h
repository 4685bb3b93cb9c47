// The keys with the best scores, by selection instead of sorting.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace lamina::cpu {

// Of the keys s in [0, count) with seen(s): keep(s), by rising s, for the k with the highest
// scores, equal ones by rising index; for all where they are no more than k. `scratch` has room for
// `count` numbers.
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
  std::nth_element(scratch, scratch + (k - 1), scratch + num_seen, std::greater<>());
  const float threshold = scratch[k - 1];
  std::int64_t equal =
      k - std::count_if(scratch, scratch + (k - 1), [&](float x) { return x > threshold; });
  for (std::int64_t s = 0; s < count; ++s)
    if (seen(s) && (scores[s] > threshold || (scores[s] == threshold && equal-- > 0))) keep(s);
}

}  // namespace lamina::cpu
