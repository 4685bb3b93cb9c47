// Rows of tables by id: copies, sums, and lists of rows.
//
// All are bound by memory. A copy moves each row once, 16 bytes per thread and access where rows
// are aligned. Sums read each row of dy once and write each row of the table that occurs once; no
// floating-point atomics, so that every sum has one order.
#include "backends/cuda/embedding/params.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/gpu/prefix.h"
#include "backends/cuda/gpu/search.h"

namespace lamina::cuda {
namespace {

struct Unit16 {
  static constexpr int kWords = 4;
  using Word = std::uint32_t;
};
struct Unit8 {
  static constexpr int kWords = 2;
  using Word = std::uint32_t;
};
struct Unit4 {
  static constexpr int kWords = 1;
  using Word = std::uint32_t;
};
struct Unit2 {
  static constexpr int kWords = 1;
  using Word = std::uint16_t;
};
struct Unit1 {
  static constexpr int kWords = 1;
  using Word = std::uint8_t;
};

// Threads take units of all rows, so that neither short nor long rows leave threads idle.
template <typename Unit>
LAMINA_GPU_FUNCTION void copy_rows(const CopyRowsParams& p) {
  using Word = typename Unit::Word;
  const gpu::Global<const Word> from(p.from);
  const gpu::Global<const std::int32_t> ids(p.ids);
  const gpu::Global<Word> to(p.to);
  const std::int64_t units = p.count * p.row_units;
  for (std::int64_t unit = gpu::first_index(); unit < units; unit += gpu::num_indices()) {
    const std::int64_t i = unit / p.row_units, column = unit % p.row_units;
    const std::int64_t id = ids[i], row = p.divide == 1 ? id : id / p.divide;
    gpu::Vector<Word, Unit::kWords> words{};
    if (id >= 0 && row < p.num_rows)
      words = gpu::load_vector<Unit::kWords>(from, (row * p.row_units + column) * Unit::kWords);
    gpu::store_vector<Unit::kWords>(to, unit * Unit::kWords, words);
  }
}

// True if a position of sorted keys begins a key, or the keys that belong to no row.
LAMINA_GPU_FUNCTION bool begins_key(gpu::Global<const std::int32_t> keys, std::int32_t count,
                                    std::int32_t i) {
  return i < count && (i == 0 || keys[i] != keys[i - 1]);
}

// Calls fn(i, counts, number) for each place i of a tile: whether counts(i), and the number of
// earlier places that count. `base`: their number in earlier tiles. [all threads]
template <typename Counts, typename Fn>
LAMINA_GPU_FUNCTION void number_places(int tile, int base, Counts counts, Fn fn) {
  LAMINA_GPU_SHARED(int, scratch, kListThreads / gpu::kWarpSize);
  for (int round = 0; round < kListRounds; ++round) {
    const int i = tile * kListTile + round * kListThreads + gpu::thread_index();
    const bool one = counts(i);
    const gpu::PrefixSum<int> sum = gpu::block_prefix_sum(one ? 1 : 0, scratch);
    fn(i, one, base + sum.before);
    base += sum.total;
  }
}

// Number of places of a tile for which counts(i). [all threads]
template <typename Counts>
LAMINA_GPU_FUNCTION int count_places(int tile, Counts counts) {
  LAMINA_GPU_SHARED(int, scratch, kListThreads / gpu::kWarpSize);
  int sum = 0;
  for (int round = 0; round < kListRounds; ++round)
    sum += counts(tile * kListTile + round * kListThreads + gpu::thread_index()) ? 1 : 0;
  return gpu::block_prefix_sum(sum, scratch).total;
}

// Sum of the counts of the tiles before `tile`. [all threads]
LAMINA_GPU_FUNCTION int count_before(gpu::Global<const std::int32_t> tile_counts, int tile) {
  LAMINA_GPU_SHARED(int, scratch, kListThreads / gpu::kWarpSize);
  int sum = 0;
  for (int i = gpu::thread_index(); i < tile; i += kListThreads) sum += tile_counts[i];
  return gpu::block_prefix_sum(sum, scratch).total;
}

// Sums of N columns.
template <typename Sum, int N>
struct Sums {
  Sum values[N];
};

// Sums rows first, first + step, ... of a group in columns [column, column + N).
template <typename T, int N>
LAMINA_GPU_FUNCTION Sums<gpu::Wide<T>, N> sum_rows_of(const SumRowsParams& p, std::int32_t first,
                                                      std::int32_t past, int step,
                                                      std::int64_t column) {
  const gpu::Global<const T> dy(p.dy);
  const gpu::Global<const std::int32_t> places(p.places);
  Sums<gpu::Wide<T>, N> sums{};
  for (std::int32_t i = first; i < past; i += step) {
    const auto row = gpu::load_vector<N>(dy, places[i] * p.width + column);
    for (int k = 0; k < N; ++k) sums.values[k] += gpu::widen(row.values[k]);
  }
  return sums;
}

template <typename Sum, int N>
LAMINA_GPU_FUNCTION void store_sums(const SumRowsParams& p, std::int32_t slot, std::int64_t column,
                                    const Sums<Sum, N>& sums) {
  constexpr int kPart = N % 4 == 0 ? 4 : 1;
  const std::int64_t row = p.add ? gpu::Global<const std::int32_t>(p.ids)[slot] : slot;
  const gpu::Global<Sum> to(p.sums);
  for (int first = 0; first < N; first += kPart) {
    const std::int64_t at = row * p.width + column + first;
    gpu::Vector<Sum, kPart> part{};
    if (p.add) part = gpu::load_vector<kPart>(to, at);
    for (int k = 0; k < kPart; ++k) part.values[k] += sums.values[first + k];
    gpu::store_vector<kPart>(to, at, part);
  }
}

// One warp per short group and 32 N columns.
template <typename T, int N>
LAMINA_GPU_FUNCTION void sum_short_groups(const SumRowsParams& p) {
  const gpu::Global<const std::int32_t> starts(p.starts);
  const std::int32_t used = gpu::Global<const std::int32_t>(p.used)[0];
  const std::int64_t chunks = (p.width + 32 * N - 1) / (32 * N);
  const std::int64_t step = std::int64_t{gpu::num_blocks()} * kSumWarps;
  for (std::int64_t i = std::int64_t{gpu::block_index()} * kSumWarps + gpu::warp_index();
       i < used * chunks; i += step) {
    const auto slot = static_cast<std::int32_t>(i / chunks);
    const std::int64_t column = i % chunks * 32 * N + gpu::lane() * N;
    const std::int32_t first = starts[slot], past = starts[slot + 1];
    if (past - first > kLongGroup || column >= p.width) continue;
    const auto sums = sum_rows_of<T, N>(p, first, past, 1, column);
    store_sums(p, slot, column, sums);
  }
}

// One block per long group and 32 N columns: each warp adds up every kSumWarps-th row, and the
// first adds the sums of the warps.
template <typename T, int N>
LAMINA_GPU_FUNCTION void sum_long_groups(const SumRowsParams& p) {
  using Sum = gpu::Wide<T>;
  LAMINA_GPU_SHARED(Sum, shared, kSumWarps * 32 * N);
  const gpu::Global<const std::int32_t> starts(p.starts);
  const std::int32_t used = gpu::Global<const std::int32_t>(p.used)[0];
  const std::int64_t column = std::int64_t{gpu::block_index_y()} * 32 * N + gpu::lane() * N;
  for (std::int32_t slot = gpu::block_index(); slot < used; slot += gpu::num_blocks()) {
    const std::int32_t first = starts[slot], past = starts[slot + 1];
    if (past - first <= kLongGroup) continue;
    Sums<Sum, N> sums{};
    if (column < p.width)
      sums = sum_rows_of<T, N>(p, first + gpu::warp_index(), past, kSumWarps, column);
    for (int k = 0; k < N; ++k)
      shared[(gpu::warp_index() * N + k) * 32 + gpu::lane()] = sums.values[k];
    gpu::sync();
    if (gpu::warp_index() == 0 && column < p.width) {
      for (int warp = 1; warp < kSumWarps; ++warp)
        for (int k = 0; k < N; ++k) sums.values[k] += shared[(warp * N + k) * 32 + gpu::lane()];
      store_sums(p, slot, column, sums);
    }
    gpu::sync();
  }
}

template <typename Sum>
LAMINA_GPU_FUNCTION void clear_slots(const ClearSlotsParams& p) {
  const std::int64_t used = gpu::Global<const std::int32_t>(p.used)[0];
  const gpu::Global<std::int32_t> ids(p.ids);
  const gpu::Global<Sum> sums(p.sums);
  for (std::int64_t i = used + gpu::first_index(); i < p.slots; i += gpu::num_indices())
    ids[i] = p.limit;
  for (std::int64_t i = used * p.width + gpu::first_index(); i < p.slots * p.width;
       i += gpu::num_indices())
    sums[i] = 0;
}

// Slots of the lists in use, as sorted lists end with unused ones.
LAMINA_GPU_FUNCTION std::int32_t num_used(gpu::Address ids, std::int32_t slots,
                                          std::int32_t limit) {
  return gpu::lower_bound(gpu::Global<const std::int32_t>(ids), slots, limit);
}

// True for a slot of the second list whose id is not in the first.
LAMINA_GPU_FUNCTION bool is_new(const MergeListsParams& p, std::int32_t used, std::int32_t slot) {
  if (slot >= p.more_slots) return false;
  const gpu::Global<const std::int32_t> ids(p.ids), more_ids(p.more_ids);
  const std::int32_t id = more_ids[slot];
  if (id >= p.limit) return false;
  const std::int32_t at = gpu::lower_bound(ids, used, id);
  return at == used || ids[at] != id;
}

template <typename Sum>
LAMINA_GPU_FUNCTION void merge_rows(const MergeListsParams& p) {
  const gpu::Global<const std::int32_t> from(p.from), from_more(p.from_more);
  const gpu::Global<const Sum> sums(p.sums), more(p.more);
  const gpu::Global<Sum> out(p.sums_out);
  for (std::int64_t i = gpu::first_index(); i < p.slots * p.width; i += gpu::num_indices()) {
    const std::int64_t slot = i / p.width, column = i % p.width;
    const std::int64_t one = from[slot], other = from_more[slot];
    Sum sum = one < 0 ? 0 : sums[one * p.width + column];
    if (other >= 0) sum += more[other * p.width + column];
    out[i] = sum;
  }
}

}  // namespace

LAMINA_GPU_KERNEL(embedding_copy_16, CopyRowsParams) { copy_rows<Unit16>(p); }
LAMINA_GPU_KERNEL(embedding_copy_8, CopyRowsParams) { copy_rows<Unit8>(p); }
LAMINA_GPU_KERNEL(embedding_copy_4, CopyRowsParams) { copy_rows<Unit4>(p); }
LAMINA_GPU_KERNEL(embedding_copy_2, CopyRowsParams) { copy_rows<Unit2>(p); }
LAMINA_GPU_KERNEL(embedding_copy_1, CopyRowsParams) { copy_rows<Unit1>(p); }

LAMINA_GPU_KERNEL_BOUNDS(embedding_count_keys, ListKeysParams, kListThreads, 1) {
  const gpu::Global<const std::int32_t> keys(p.keys);
  const int tile = gpu::block_index();
  const int count = count_places(tile, [&](int i) { return begins_key(keys, p.count, i); });
  if (gpu::thread_index() == 0) gpu::Global<std::int32_t>(p.tile_counts)[tile] = count;
}

LAMINA_GPU_KERNEL_BOUNDS(embedding_list_keys, ListKeysParams, kListThreads, 1) {
  const gpu::Global<const std::int32_t> keys(p.keys), tile_counts(p.tile_counts);
  const gpu::Global<std::int32_t> starts(p.starts), ids(p.ids), used(p.used);
  const int tile = gpu::block_index();
  number_places(
      tile, count_before(tile_counts, tile), [&](int i) { return begins_key(keys, p.count, i); },
      [&](int i, bool begins, int slot) {
        if (!begins) return;
        const std::int32_t key = keys[i];
        starts[slot] = i;
        if (key == p.limit) {  // comes last, and ends the list
          used[0] = slot;
          return;
        }
        ids[slot] = key;
        if (key != keys[p.count - 1]) return;
        starts[slot + 1] = p.count;
        used[0] = slot + 1;
      });
}

#define LAMINA_SUM_KERNELS(type, T, N)                                                         \
  LAMINA_GPU_KERNEL_BOUNDS(embedding_sum_short_groups_##type, SumRowsParams, kSumThreads, 2) { \
    sum_short_groups<T, N>(p);                                                                 \
  }                                                                                            \
  LAMINA_GPU_KERNEL_BOUNDS(embedding_sum_long_groups_##type, SumRowsParams, kSumThreads, 2) {  \
    sum_long_groups<T, N>(p);                                                                  \
  }
LAMINA_SUM_KERNELS(f32, float, 1)
LAMINA_SUM_KERNELS(f32x4, float, 4)
LAMINA_SUM_KERNELS(bf16, gpu::bfloat16, 1)
LAMINA_SUM_KERNELS(bf16x8, gpu::bfloat16, 8)
LAMINA_SUM_KERNELS(f16, gpu::float16, 1)
LAMINA_SUM_KERNELS(f64, double, 1)
#undef LAMINA_SUM_KERNELS

LAMINA_GPU_KERNEL(embedding_clear_slots_f32, ClearSlotsParams) { clear_slots<float>(p); }
LAMINA_GPU_KERNEL(embedding_clear_slots_f64, ClearSlotsParams) { clear_slots<double>(p); }

LAMINA_GPU_KERNEL_BOUNDS(add_rows_count_new, MergeListsParams, kListThreads, 1) {
  const std::int32_t used = num_used(p.ids, p.slots, p.limit);
  const int tile = gpu::block_index();
  const int count = count_places(tile, [&](int slot) { return is_new(p, used, slot); });
  if (gpu::thread_index() == 0) gpu::Global<std::int32_t>(p.tile_counts)[tile] = count;
}

// Places the rows of the second list that are new: before the first row of the first list with a
// higher id.
LAMINA_GPU_KERNEL_BOUNDS(add_rows_place_new, MergeListsParams, kListThreads, 1) {
  const gpu::Global<const std::int32_t> ids(p.ids), more_ids(p.more_ids),
      tile_counts(p.tile_counts);
  const gpu::Global<std::int32_t> new_before(p.new_before), ids_out(p.ids_out), from(p.from),
      from_more(p.from_more);
  const std::int32_t used = num_used(p.ids, p.slots, p.limit);
  const int tile = gpu::block_index();
  number_places(
      tile, count_before(tile_counts, tile), [&](int slot) { return is_new(p, used, slot); },
      [&](int slot, bool added, int before) {
        if (slot <= p.more_slots) new_before[slot] = before;
        if (!added) return;
        const std::int32_t id = more_ids[slot], to = gpu::lower_bound(ids, used, id) + before;
        if (to >= p.slots) return;  // the first list has too few slots
        ids_out[to] = id;
        from[to] = -1;
        from_more[to] = slot;
      });
}

// Places the rows of the first list, and clears the slots after the last row.
LAMINA_GPU_KERNEL(add_rows_place, MergeListsParams) {
  const gpu::Global<const std::int32_t> ids(p.ids), more_ids(p.more_ids), new_before(p.new_before);
  const gpu::Global<std::int32_t> ids_out(p.ids_out), from(p.from), from_more(p.from_more);
  const std::int32_t used = num_used(p.ids, p.slots, p.limit);
  const std::int32_t more_used = num_used(p.more_ids, p.more_slots, p.limit);
  for (std::int64_t i = gpu::first_index(); i < p.slots; i += gpu::num_indices()) {
    const auto slot = static_cast<std::int32_t>(i);
    if (slot >= used + new_before[p.more_slots]) {
      ids_out[slot] = p.limit;
      from[slot] = from_more[slot] = -1;
    }
    if (slot >= used) continue;
    const std::int32_t at = gpu::lower_bound(more_ids, more_used, ids[slot]);
    const std::int32_t to = slot + new_before[at];
    if (to >= p.slots) continue;
    ids_out[to] = ids[slot];
    from[to] = slot;
    from_more[to] = at < more_used && more_ids[at] == ids[slot] ? at : -1;
  }
}

LAMINA_GPU_KERNEL(add_rows_merge_f32, MergeListsParams) { merge_rows<float>(p); }
LAMINA_GPU_KERNEL(add_rows_merge_f64, MergeListsParams) { merge_rows<double>(p); }

}  // namespace lamina::cuda
