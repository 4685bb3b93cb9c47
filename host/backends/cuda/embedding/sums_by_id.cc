#include "backends/cuda/embedding/sums_by_id.h"

#include <algorithm>

#include "core/round_up.h"

namespace lamina::cuda {
SumsById::SumsById(Context& context, const Sizes& sizes)
    : sizes_(sizes),
      sort_(context, sizes.num_ids, sizes.num_rows),
      tiles_(divide_up(sizes.num_ids, kListTile)),
      count_keys_(function(context, "embedding_count_keys")),
      list_keys_(function(context, "embedding_list_keys")),
      short_groups_(context, "embedding_sum_short_groups", sizes.dtype, sizes.width),
      long_groups_(context, "embedding_sum_long_groups", sizes.dtype, sizes.width),
      clear_(function(context, "embedding_clear_slots", sum_dtype(sizes.dtype))) {}

std::size_t SumsById::workspace_bytes() const {
  const auto ids = static_cast<std::size_t>(sizes_.num_ids);
  return 3 * aligned(ids * 4) + aligned(ids * 4 + 4) + aligned(4) +
         aligned(static_cast<std::size_t>(tiles_) * 4) + sort_.workspace_bytes();
}

SumsById::Lists SumsById::lists(std::byte* workspace) const {
  const auto take = [&](std::size_t numbers) {
    std::byte* part = workspace;
    workspace += aligned(numbers * 4);
    return address(part);
  };
  const auto ids = static_cast<std::size_t>(sizes_.num_ids);
  Lists out{};
  out.keys = take(ids);
  out.places = take(ids);
  out.ids = take(ids);
  out.starts = take(ids + 1);
  out.used = take(1);
  out.tile_counts = take(static_cast<std::size_t>(tiles_));
  out.sort = workspace;
  return out;
}

void SumsById::find_ids(const KernelArgs& args, const Lists& lists, const void* ids,
                        gpu::Address listed) const {
  sort_.run(args, {.keys = address(ids), .sorted_keys = lists.keys, .sorted_places = lists.places},
            lists.sort);
  const ListKeysParams p{.keys = lists.keys,
                         .tile_counts = lists.tile_counts,
                         .starts = lists.starts,
                         .ids = listed,
                         .used = lists.used,
                         .count = static_cast<std::int32_t>(sizes_.num_ids),
                         .limit = static_cast<std::int32_t>(sizes_.num_rows),
                         .tiles = static_cast<std::int32_t>(tiles_)};
  const LaunchShape shape{.blocks = tiles_, .threads = kListThreads};
  if (tiles_ > 1) launch(args, count_keys_, shape, p);
  launch(args, list_keys_, shape, p);
}

void SumsById::add_up(const KernelArgs& args, const SumRowsParams& params) const {
  const int columns = short_groups_.columns({params.dy, params.sums});
  const std::int64_t chunks = divide_up(sizes_.width, std::int64_t{32} * columns);
  const std::int64_t most_ids = std::min(sizes_.num_ids, sizes_.num_rows);
  launch(args, short_groups_.get(columns),
         {.blocks = grid_for(most_ids * chunks, kSumWarps), .threads = kSumThreads}, params);
  const std::int64_t most_long = sizes_.num_ids / (kLongGroup + 1);
  launch(args, long_groups_.get(columns),
         {.blocks = std::min<std::int64_t>(most_long, 256),
          .threads = kSumThreads,
          .blocks_y = chunks},
         params);
}

void SumsById::add_to_table(const KernelArgs& args, const void* ids, const void* dy,
                            void* table) const {
  if (sizes_.num_ids == 0 || sizes_.width == 0) return;
  const Lists l = lists(args.workspace);
  find_ids(args, l, ids, l.ids);
  add_up(args, {.dy = address(dy),
                .places = l.places,
                .starts = l.starts,
                .ids = l.ids,
                .used = l.used,
                .sums = address(table),
                .add = true,
                .width = sizes_.width});
}

void SumsById::list(const KernelArgs& args, const void* ids, const void* dy, std::int64_t slots,
                    void* sum_ids, void* sums) const {
  if (slots == 0) return;
  const Lists l = lists(args.workspace);
  find_ids(args, l, ids, address(sum_ids));
  launch(args, clear_,
         {.blocks = grid_for(slots * std::max<std::int64_t>(sizes_.width, 1), 256), .threads = 256},
         ClearSlotsParams{.used = l.used,
                          .ids = address(sum_ids),
                          .sums = address(sums),
                          .slots = static_cast<std::int32_t>(slots),
                          .limit = static_cast<std::int32_t>(sizes_.num_rows),
                          .width = sizes_.width});
  if (sizes_.width == 0) return;
  add_up(args, {.dy = address(dy),
                .places = l.places,
                .starts = l.starts,
                .ids = address(sum_ids),
                .used = l.used,
                .sums = address(sums),
                .add = false,
                .width = sizes_.width});
}

}  // namespace lamina::cuda
