// Finds tiles of pairs that attention can skip: spans of positions and segments of tiles of keys,
// and tiles in which a mask keeps a pair. Bound by memory: each id and each byte of the mask is
// read once, by neighbouring lanes.
#include "backends/cuda/attention/visibility.h"

namespace lamina::cuda {
namespace {

LAMINA_GPU_FUNCTION TokenSpan span_of_rows(const SpansParams& p, const RowVisibility& row,
                                           int tile) {
  TokenSpan span = empty_span();
  const int last = last_token(p.size, tile);
  for (int t = first_token(p.size, tile) + gpu::lane(); t <= last; t += gpu::kWarpSize)
    extend(span, query_place(p.seen, row, t));
  return span;
}

LAMINA_GPU_FUNCTION TokenSpan span_of_keys(const SpansParams& p, const RowVisibility& row,
                                           int tile) {
  TokenSpan span = empty_span();
  const int first = tile * p.size.tile_keys;
  for (int s = first + gpu::lane(); s < first + p.size.tile_keys && s < row.num_keys;
       s += gpu::kWarpSize)
    extend(span, key_place(p.seen, row, s));
  return span;
}

// One warp per tile of rows or keys of a batch row.
LAMINA_GPU_FUNCTION void spans(const SpansParams& p) {
  const int row_tiles = p.size.row_tiles, tiles = row_tiles + p.size.key_tiles;
  const int warps = gpu::num_warps();
  for (std::int64_t i = std::int64_t{gpu::block_index()} * warps + gpu::warp_index();
       i < std::int64_t{p.size.batch} * tiles; i += std::int64_t{gpu::num_blocks()} * warps) {
    const int b = static_cast<int>(i / tiles), tile = static_cast<int>(i % tiles);
    const RowVisibility row = row_visibility(p.seen, p.size, b);
    const bool of_rows = tile < row_tiles;
    const TokenSpan span =
        warp_span(of_rows ? span_of_rows(p, row, tile) : span_of_keys(p, row, tile - row_tiles));
    if (gpu::lane() != 0) continue;
    if (of_rows)
      gpu::Global<TokenSpan>(p.query_spans)[std::int64_t{b} * row_tiles + tile] = span;
    else
      gpu::Global<TokenSpan>(p.key_spans)[std::int64_t{b} * p.size.key_tiles + tile - row_tiles] =
          span;
  }
}

// True if the mask of one head keeps a pair of the tokens [t, end) and a tile of keys.
LAMINA_GPU_FUNCTION bool keeps_pair(const KeptTilesParams& p, gpu::Global<const std::uint8_t> keep,
                                    int t, int end, int first_key) {
  bool any = false;
  for (; t < end; ++t)
    for (int s = first_key + gpu::lane(); s < first_key + p.size.tile_keys && s < p.size.kv_tokens;
         s += gpu::kWarpSize)
      any = any || keep[std::int64_t{t} * p.size.kv_tokens + s] != 0;
  return gpu::any(any);
}

// One block per (batch row, key head or 1, row tile); its warps take tiles of keys.
LAMINA_GPU_FUNCTION void kept_tiles(const KeptTilesParams& p) {
  const AttentionSizes& size = p.size;
  const int heads = p.by_head != 0 ? size.kv_heads : 1;
  const int row_tile = gpu::block_index() % size.row_tiles;
  const int head = gpu::block_index() / size.row_tiles % heads;
  const int b = gpu::block_index() / size.row_tiles / heads;
  const int first = row_tile * size.tile_rows;
  const int last = gpu::min(first + size.tile_rows, size.rows) - 1;
  const std::int64_t pairs = std::int64_t{size.q_tokens} * size.kv_tokens;
  const gpu::Global<std::uint8_t> tiles =
      gpu::Global<std::uint8_t>(p.tiles) + std::int64_t{gpu::block_index()} * size.key_tiles;
  for (int tile = gpu::warp_index(); tile < size.key_tiles; tile += gpu::num_warps()) {
    bool any = false;
    for (int g = 0; g < (p.by_head != 0 ? size.group : 1) && !any; ++g) {
      const std::int64_t mask =
          p.by_head != 0 ? std::int64_t{b} * size.heads + head * size.group + g : b;
      any = keeps_pair(p, gpu::Global<const std::uint8_t>(p.keep) + mask * pairs,
                       first / size.group, last / size.group + 1, tile * size.tile_keys);
    }
    if (gpu::lane() == 0) tiles[tile] = any ? 1 : 0;
  }
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(attention_spans, SpansParams, 128, 1) { spans(p); }
LAMINA_GPU_KERNEL_BOUNDS(attention_kept_tiles, KeptTilesParams, 128, 1) { kept_tiles(p); }

}  // namespace lamina::cuda
