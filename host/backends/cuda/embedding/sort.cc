#include "backends/cuda/embedding/sort.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cuda {

StableSort::StableSort(Context& context, std::int64_t count, std::int64_t limit)
    : count_(function(context, "embedding_sort_count")),
      offsets_(function(context, "embedding_sort_offsets")),
      scatter_(function(context, "embedding_sort_scatter")),
      tile_(function(context, "embedding_sort_tile")),
      starts_(function(context, "embedding_sort_starts")),
      num_keys_(count),
      limit_(limit),
      tiles_(divide_up(count, kSortTile)),
      bits_(std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(limit))))),
      passes_((bits_ + kMaxSortBits - 1) / kMaxSortBits) {
  LAMINA_ASSERT(count >= 0 && count <= kMaxCount && limit >= 0 && limit < std::int64_t{1} << 31);
}

// Keys and places between passes, twice; then counts and totals.
std::size_t StableSort::workspace_bytes() const {
  const std::int64_t lists = 2 * std::min(passes_ - 1, 2) + (passes_ > 1 ? 1 : 0);
  const std::int64_t bins = std::int64_t{1} << std::min(bits_, kMaxSortBits);
  return aligned(static_cast<std::size_t>(num_keys_) * 4) * static_cast<std::size_t>(lists) +
         aligned(static_cast<std::size_t>(bins * (tiles_ + 1)) * 4);
}

std::byte* StableSort::at(std::byte* workspace, int list) const {
  return workspace +
         aligned(static_cast<std::size_t>(num_keys_) * 4) * static_cast<std::size_t>(list);
}

void StableSort::run(const KernelArgs& args, const Memory& memory, std::byte* workspace) const {
  if (num_keys_ == 0) return;
  // Places of lists in the workspace: the keys and places of passes, and the last pass's keys if
  // the caller does not want them.
  const int middle = std::min(passes_ - 1, 2);
  const gpu::Address last_keys = memory.sorted_keys.value || passes_ == 1
                                     ? memory.sorted_keys
                                     : address(at(workspace, 2 * middle));
  std::byte* counts = at(workspace, 2 * middle + (passes_ > 1 ? 1 : 0));
  const std::int64_t bins = std::int64_t{1} << std::min(bits_, kMaxSortBits);
  SortParams p{.keys = memory.keys,
               .places = {},
               .counts = address(counts),
               .totals = address(counts + bins * tiles_ * 4),
               .sorted_keys = {},
               .sorted_places = {},
               .starts = {},
               .count = static_cast<std::int32_t>(num_keys_),
               .limit = static_cast<std::int32_t>(limit_),
               .tiles = static_cast<std::int32_t>(tiles_),
               .shift = 0,
               .bits = 0};
  for (int pass = 0; pass < passes_; ++pass) {
    const bool last = pass + 1 == passes_;
    p.bits = (bits_ - p.shift) / (passes_ - pass);
    p.sorted_keys = last ? last_keys : address(at(workspace, pass % 2 * 2));
    p.sorted_places = last ? memory.sorted_places : address(at(workspace, pass % 2 * 2 + 1));
    if (passes_ == 1) p.starts = memory.starts;
    run_pass(args, p);
    p.shift += p.bits;
    p.keys = p.sorted_keys;
    p.places = p.sorted_places;
  }
  if (passes_ == 1 || !memory.starts.value) return;
  const SortedStartsParams starts{
      .keys = last_keys, .starts = memory.starts, .count = p.count, .num_starts = p.limit + 1};
  launch(args, starts_, {.blocks = grid_for(limit_ + 1, 256), .threads = 256}, starts);
}

void StableSort::run_pass(const KernelArgs& args, SortParams p) const {
  const LaunchShape shape{.blocks = tiles_,
                          .threads = kSortThreads,
                          .shared_bytes = static_cast<std::size_t>(kSortWarps * 4) << p.bits};
  if (tiles_ == 1) return launch(args, tile_, shape, p);
  launch(args, count_, shape, p);
  launch(args, offsets_,
         {.blocks = divide_up(std::int64_t{1} << p.bits, kSortWarps), .threads = kSortThreads}, p);
  launch(args, scatter_, shape, p);
}

}  // namespace lamina::cuda
