#include "runtime/memory_plan.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "runtime/backend.h"

namespace lamina {
namespace {

int num_steps(std::span<const Lifetime> lifetimes) {
  int steps = 0;
  for (const Lifetime& l : lifetimes) steps = std::max(steps, l.last + 1);
  return steps;
}

std::size_t worst_step_bytes(std::span<const Lifetime> lifetimes) {
  std::vector<std::int64_t> change(static_cast<std::size_t>(num_steps(lifetimes)) + 1);
  for (const Lifetime& l : lifetimes) {
    auto bytes = static_cast<std::int64_t>(aligned(l.bytes));
    change[static_cast<std::size_t>(l.first)] += bytes;
    change[static_cast<std::size_t>(l.last) + 1] -= bytes;
  }
  std::int64_t now = 0, worst = 0;
  for (std::int64_t c : change) worst = std::max(worst, now += c);
  return static_cast<std::size_t>(worst);
}

// Ranges of bytes, sorted; ranges that touch are one.
class Ranges {
 public:
  // Returns the lowest offset from `from` on at which `bytes` are free.
  std::size_t first_fit(std::size_t from, std::size_t bytes) const {
    auto at = std::ranges::upper_bound(ranges_, from, {}, &Range::end);
    for (; at != ranges_.end() && at->begin < from + bytes; ++at) from = at->end;
    return from;
  }

  void add(std::size_t begin, std::size_t end) {
    const auto first = std::ranges::lower_bound(ranges_, begin, {}, &Range::end);
    auto last = first;
    for (; last != ranges_.end() && last->begin <= end; ++last) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
    }
    ranges_.insert(ranges_.erase(first, last), {begin, end});
  }

 private:
  struct Range {
    std::size_t begin, end;
  };
  std::vector<Range> ranges_;
};

// The bytes in use at each step: a segment tree, because unrolled programs have many thousand
// blocks, and most of them are alive at most steps.
class UseOverTime {
 public:
  explicit UseOverTime(int steps)
      : steps_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(steps, 1))))),
        any_(2 * static_cast<std::size_t>(steps_)),
        all_(any_.size()) {}

  // Returns the lowest offset at which `bytes` are free in all steps of the lifetime.
  std::size_t lowest_gap(const Lifetime& l, std::size_t bytes) const {
    std::size_t offset = 0;
    for (std::size_t before = 1; before != offset;) {
      before = offset;
      visit(l, 1, 0, steps_, [&](std::size_t node, bool whole) {
        offset = (whole ? any_ : all_)[node].first_fit(offset, bytes);
      });
    }
    return offset;
  }

  void add(const Lifetime& l, std::size_t begin, std::size_t end) {
    visit(l, 1, 0, steps_, [&](std::size_t node, bool whole) {
      any_[node].add(begin, end);
      if (whole) all_[node].add(begin, end);
    });
  }

 private:
  // Calls `see` with the fewest nodes that together cover the lifetime (`whole`), and with all
  // nodes above these.
  template <typename See>
  static void visit(const Lifetime& l, std::size_t node, int begin, int end, const See& see) {
    if (l.last < begin || l.first >= end) return;
    const bool whole = l.first <= begin && end <= l.last + 1;
    see(node, whole);
    if (whole) return;
    const int middle = begin + (end - begin) / 2;
    visit(l, 2 * node, begin, middle, see);
    visit(l, 2 * node + 1, middle, end, see);
  }

  int steps_;
  std::vector<Ranges> any_;  // used in some of the node's steps
  std::vector<Ranges> all_;  // by blocks that are alive in all of them
};

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  plan.lower_bound_bytes = worst_step_bytes(lifetimes);

  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  UseOverTime used(num_steps(lifetimes));
  for (std::size_t block : order) {
    const Lifetime& l = lifetimes[block];
    if (l.bytes == 0) continue;
    const std::size_t bytes = aligned(l.bytes), offset = used.lowest_gap(l, bytes);
    used.add(l, offset, offset + bytes);
    plan.offsets[block] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
  }
  return plan;
}

}  // namespace lamina
