#include "ops/attended_pairs.h"

#include <algorithm>
#include <limits>

namespace lamina::ops {
namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

// Returns the sum of min(i, max) over i from 1 to n.
double ramp(std::int64_t n, std::int64_t max) {
  const auto rising = static_cast<double>(std::min(n, max));
  return rising * (rising + 1) / 2 +
         static_cast<double>(std::max<std::int64_t>(n - max, 0)) * static_cast<double>(max);
}

// Returns the sum of min(i / ratio, max) with integer division, over i from 1 to n.
double stairs(std::int64_t n, std::int64_t ratio, std::int64_t max) {
  const std::int64_t steps = std::min(n / ratio, max);
  return static_cast<double>(ratio) * ramp(steps - 1, kAny) +
         static_cast<double>(n + 1 - steps * ratio) * static_cast<double>(steps);
}

}  // namespace

double attended_pairs(const Visibility& seen, std::int64_t start, std::int64_t queries) {
  const std::int64_t max = seen.max_keys ? seen.max_keys : kAny;
  if (!seen.causal && !seen.window && !seen.chunk)
    return static_cast<double>(queries) * static_cast<double>(std::min(seen.keys, max));
  const std::int64_t chunk = seen.chunk ? seen.chunk : kAny;
  double pairs = 0;
  if (seen.causal || seen.window) {
    // The i-th query of a chunk sees its first i keys, or the last of them.
    const std::int64_t cap = std::min(max, seen.window ? seen.window : kAny);
    auto before = [&](std::int64_t n) {
      const std::int64_t whole = n / chunk;
      return (whole ? static_cast<double>(whole) * ramp(chunk, cap) : 0) + ramp(n % chunk, cap);
    };
    return before(start + queries) - before(start);
  }
  for (std::int64_t t = start; t < start + queries;) {
    const std::int64_t first = t / chunk * chunk, end = std::min(first + chunk, start + queries);
    const std::int64_t keys = std::min(seen.keys, first + chunk) - first;
    pairs += static_cast<double>(end - t) * static_cast<double>(std::min(keys, max));
    t = end;
  }
  return pairs;
}

double ended_windows(std::int64_t ratio, std::int64_t max_windows, std::int64_t start,
                     std::int64_t queries) {
  const std::int64_t max = max_windows ? max_windows : kAny;
  return stairs(start + queries, ratio, max) - stairs(start, ratio, max);
}

}  // namespace lamina::ops
