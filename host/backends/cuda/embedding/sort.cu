// A stable radix sort of integers with their places.
//
// Bound by memory, and by the latency of its launches where there are few items: a pass reads keys
// twice and writes 8 bytes per item. Items of a warp with the same digit are found by votes, so no
// order depends on the scheduling of threads.
#include "backends/cuda/embedding/sort_params.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/gpu/prefix.h"
#include "backends/cuda/gpu/search.h"

namespace lamina::cuda {
namespace {

LAMINA_GPU_FUNCTION int sort_key(const SortParams& p, int i) {
  const int key = gpu::Global<const std::int32_t>(p.keys)[i];
  return key >= 0 && key < p.limit ? key : p.limit;
}

// An item of a warp's round, and the lanes of the round whose items are in the same bin.
struct SortItem {
  bool valid;
  int index, key, bin;
  std::uint32_t peers;
};

// Calls fn(item) for each round of this warp that has items, with all lanes.
template <typename Fn>
LAMINA_GPU_FUNCTION void for_each_round(const SortParams& p, int tile, Fn fn) {
  const int first = tile * kSortTile + gpu::warp_index() * gpu::kWarpSize * kSortRounds;
  for (int round = 0; round < kSortRounds; ++round) {
    const int start = first + round * gpu::kWarpSize;
    if (start >= p.count) return;
    SortItem item{};
    item.index = start + gpu::lane();
    item.valid = item.index < p.count;
    item.key = item.valid ? sort_key(p, item.index) : 0;
    item.bin = item.key >> p.shift & ((1 << p.bits) - 1);
    item.peers = gpu::ballot(item.valid);
    for (int bit = 0; bit < p.bits; ++bit) {
      const bool set = item.bin >> bit & 1;
      const std::uint32_t others = gpu::ballot(set);
      item.peers &= set ? others : ~others;
    }
    fn(item);
  }
}

LAMINA_GPU_FUNCTION bool is_last_peer(const SortItem& item) {
  return item.valid && item.peers >> gpu::lane() == 1;
}

// Counts the items of each bin per warp: counts[warp, bin].
template <typename Counts>
LAMINA_GPU_FUNCTION void count_bins(const SortParams& p, int tile, Counts counts) {
  const int bins = 1 << p.bits;
  for (int i = gpu::thread_index(); i < kSortWarps * bins; i += gpu::num_threads()) counts[i] = 0;
  gpu::sync();
  for_each_round(p, tile, [&](const SortItem& item) {
    if (is_last_peer(item))
      counts[gpu::warp_index() * bins + item.bin] += gpu::count_lanes(item.peers);
    gpu::sync_warp();
  });
  gpu::sync();
}

// Sum of a bin's counts over the warps.
template <typename Counts>
LAMINA_GPU_FUNCTION int count_of(Counts counts, int bins, int bin) {
  int sum = 0;
  for (int warp = 0; warp < kSortWarps; ++warp) sum += counts[warp * bins + bin];
  return sum;
}

// Replaces counts by the position of the first item of each warp in each bin. `total(bin)` is the
// number of the bin's items, `before(bin)` of those in earlier tiles.
template <typename Counts, typename Total, typename Before>
LAMINA_GPU_FUNCTION void place_bins(const SortParams& p, int tile, Counts counts, Total total,
                                    Before before) {
  LAMINA_GPU_SHARED(int, scratch, kSortWarps);
  const int bins = 1 << p.bits, per_thread = (bins + kSortThreads - 1) / kSortThreads;
  const int begin = gpu::thread_index() * per_thread;
  const int end = begin + per_thread < bins ? begin + per_thread : bins;
  int sum = 0;
  for (int bin = begin; bin < end; ++bin) sum += total(bin);
  int start = gpu::block_prefix_sum(sum, scratch).before;
  const gpu::Global<std::int32_t> starts(p.starts);
  for (int bin = begin; bin < end; ++bin) {
    if (tile == 0 && starts && bin <= p.limit) starts[bin] = start;
    const int size = total(bin);
    int next = start + before(bin);
    for (int warp = 0; warp < kSortWarps; ++warp) {
      const int count = counts[warp * bins + bin];
      counts[warp * bins + bin] = next;
      next += count;
    }
    start += size;
  }
  gpu::sync();
}

// Writes each item to its position: `counts` has the next one of each warp and bin.
template <typename Counts>
LAMINA_GPU_FUNCTION void scatter_items(const SortParams& p, int tile, Counts counts) {
  const int bins = 1 << p.bits;
  const gpu::Global<const std::int32_t> places(p.places);
  const gpu::Global<std::int32_t> sorted_keys(p.sorted_keys), sorted_places(p.sorted_places);
  for_each_round(p, tile, [&](const SortItem& item) {
    const int slot = gpu::warp_index() * bins + item.bin;
    const int first = counts[slot];
    if (item.valid) {
      const int to = first + gpu::count_lanes(item.peers & gpu::lanes_before());
      if (sorted_keys) sorted_keys[to] = item.key;
      sorted_places[to] = places ? places[item.index] : item.index;
    }
    gpu::sync_warp();
    if (is_last_peer(item)) counts[slot] = first + gpu::count_lanes(item.peers);
    gpu::sync_warp();
  });
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(embedding_sort_count, SortParams, kSortThreads, 1) {
  const auto counts = gpu::dynamic_shared<int>();
  const int tile = gpu::block_index(), bins = 1 << p.bits;
  count_bins(p, tile, counts);
  const gpu::Global<std::int32_t> out(p.counts);
  for (int bin = gpu::thread_index(); bin < bins; bin += gpu::num_threads())
    out[std::int64_t{bin} * p.tiles + tile] = count_of(counts, bins, bin);
}

// One warp per bin: replaces the count of each tile by the number of items in the tiles before.
LAMINA_GPU_KERNEL_BOUNDS(embedding_sort_offsets, SortParams, kSortThreads, 1) {
  const int bin = gpu::block_index() * kSortWarps + gpu::warp_index();
  if (bin >= 1 << p.bits) return;
  const gpu::Global<std::int32_t> counts =
      gpu::Global<std::int32_t>(p.counts) + std::int64_t{bin} * p.tiles;
  int sum = 0;
  for (int first = 0; first < p.tiles; first += gpu::kWarpSize) {
    const int tile = first + gpu::lane();
    const int count = tile < p.tiles ? counts[tile] : 0;
    const int inclusive = gpu::warp_inclusive_sum(count);
    if (tile < p.tiles) counts[tile] = sum + inclusive - count;
    sum += gpu::shuffle(inclusive, gpu::kWarpSize - 1);
  }
  if (gpu::lane() == 0) gpu::Global<std::int32_t>(p.totals)[bin] = sum;
}

LAMINA_GPU_KERNEL_BOUNDS(embedding_sort_scatter, SortParams, kSortThreads, 1) {
  const auto counts = gpu::dynamic_shared<int>();
  const int tile = gpu::block_index();
  const gpu::Global<const std::int32_t> totals(p.totals), before(p.counts);
  count_bins(p, tile, counts);
  place_bins(
      p, tile, counts, [&](int bin) { return totals[bin]; },
      [&](int bin) { return before[std::int64_t{bin} * p.tiles + tile]; });
  scatter_items(p, tile, counts);
}

// A pass over a single tile: no other kernel is needed.
LAMINA_GPU_KERNEL_BOUNDS(embedding_sort_tile, SortParams, kSortThreads, 1) {
  const auto counts = gpu::dynamic_shared<int>();
  const int bins = 1 << p.bits;
  count_bins(p, 0, counts);
  place_bins(
      p, 0, counts, [&](int bin) { return count_of(counts, bins, bin); }, [](int) { return 0; });
  scatter_items(p, 0, counts);
}

LAMINA_GPU_KERNEL(embedding_sort_starts, SortedStartsParams) {
  const gpu::Global<const std::int32_t> keys(p.keys);
  const gpu::Global<std::int32_t> starts(p.starts);
  for (std::int64_t key = gpu::first_index(); key < p.num_starts; key += gpu::num_indices())
    starts[key] = gpu::lower_bound(keys, p.count, static_cast<std::int32_t>(key));
}

}  // namespace lamina::cuda
