#include "runtime/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "runtime/backend.h"

namespace lamina {
namespace {

std::size_t worst_step_bytes(std::span<const Lifetime> lifetimes) {
  int steps = 0;
  for (const Lifetime& l : lifetimes) steps = std::max(steps, l.last + 1);
  std::vector<std::int64_t> change(static_cast<std::size_t>(steps) + 1);
  for (const Lifetime& l : lifetimes) {
    auto bytes = static_cast<std::int64_t>(aligned(l.bytes));
    change[static_cast<std::size_t>(l.first)] += bytes;
    change[static_cast<std::size_t>(l.last) + 1] -= bytes;
  }
  std::int64_t now = 0, worst = 0;
  for (std::int64_t c : change) worst = std::max(worst, now += c);
  return static_cast<std::size_t>(worst);
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  plan.lower_bound_bytes = worst_step_bytes(lifetimes);

  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  std::vector<std::size_t> placed;  // by offset
  for (std::size_t block : order) {
    const Lifetime& l = lifetimes[block];
    if (l.bytes == 0) continue;
    std::size_t bytes = aligned(l.bytes), offset = 0;
    for (std::size_t other : placed) {
      const Lifetime& o = lifetimes[other];
      if (o.last < l.first || o.first > l.last) continue;
      if (plan.offsets[other] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[other] + aligned(o.bytes));
    }
    plan.offsets[block] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
    auto at = std::ranges::upper_bound(placed, offset, {},
                                       [&](std::size_t other) { return plan.offsets[other]; });
    placed.insert(at, block);
  }
  return plan;
}

}  // namespace lamina
