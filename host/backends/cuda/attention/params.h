// Parameters of the attention kernels, shared by the host and the device.
//
// All query heads of a key head share its keys, so the rows of one (batch row, key head) are
// (token, head of the group) pairs: row r is token r / group, head r % group. A tile is a number of
// rows and a number of keys.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// A small input of any floating type, such as sinks; without address if absent.
enum class NumberKind : std::int32_t { f32, bf16, f16, f64 };
struct SmallInput {
  gpu::Address data{};
  NumberKind kind = NumberKind::f32;
};

// The keys that a query may see. Arrays are i32[B, T] or i32[B, S]; absent ones do not restrict.
struct VisibilityParams {
  gpu::Address q_positions{}, k_positions{};  // default: the index (queries: + start)
  gpu::Address q_segments{}, k_segments{}, blocks{};
  gpu::Address keep{};    // bool[B, T, S], or with keep_by_head [B, N, T, S]
  gpu::Address starts{};  // i32[B]: keys are slots of decode state, query t is at start + t
  gpu::Address counts{};  // i32[B]: only the first counts[b] keys exist
  // Written by ranges.cu: TokenSpan[B, row tiles] and [B, key tiles] if arrays restrict, and
  // bool[B, K or 1, row tiles, key tiles] with 0 if `keep` forbids all pairs of a tile.
  gpu::Address query_spans{}, key_spans{}, kept_tiles{};
  std::int32_t keep_by_head = 0, causal = 0, window = 0, chunk = 0, ring = 0;
};

// The ranges of the positions, segments and non-zero blocks of some tokens; empty if low > high.
struct TokenSpan {
  std::int32_t low_position, high_position, low_segment, high_segment, low_block, high_block;
};

// The sizes of one run and the division of its rows and keys.
struct AttentionSizes {
  std::int32_t batch = 0, q_tokens = 0, kv_tokens = 0, heads = 0, kv_heads = 0, group = 1;
  std::int32_t width = 0, value_width = 0;    // of one head of q and k; of v
  std::int32_t rows = 0;                      // q_tokens * group
  std::int32_t tile_rows = 0, tile_keys = 0;  // of one block
  std::int32_t row_tiles = 0, key_tiles = 0;
};

// Tiles by warpgroups (warpgroups.h): rows and keys, and dynamic shared bytes for heads of kWidth
// numbers.
inline constexpr int kWarpgroupRows = 128, kWarpgroupKeys = 128;
inline constexpr int kWarpgroupThreads = 2 * kWarpgroupRows;  // a warpgroup has 64 rows
template <int kWidth>
inline constexpr int kWarpgroupTileBytes = (kWarpgroupRows + 4 * kWarpgroupKeys) * kWidth * 2;

// The logits' scale, cap and biases.
struct LogitParams {
  double scale = 1, soft_cap = 0;  // soft_cap 0: none
  SmallInput slopes{}, bias{};     // [N], [N, distances]
  std::int32_t distances = 0;
};

// attention, attention_max and the statistics of attention_mass. Blocks are the row tiles of all
// key heads and batch rows, times `splits`.
struct AttentionParams {
  AttentionSizes size{};
  VisibilityParams seen{};
  LogitParams logits{};
  SmallInput sinks{};
  gpu::Address q{}, k{}, v{};  // [B, T, N, H], [B, S, K, H], [B, S, K, V]; no v: statistics only
  gpu::Address k_tail{};       // [B, S, tail_width]: the last elements of keys of one head
  gpu::Address slots{};        // i32[B, S]: key s is row slots[b, s] of k
  gpu::Address y{}, lse{}, top{};  // [B, T, N, V]; [B, N, T]; [B, N, T]: the largest logit
  // With splits > 1 instead of the results: f32[B, K, splits, rows, V] and without V.
  gpu::Address partial_y{}, partial_top{}, partial_sum{};
  gpu::Address ended{};  // u32[B, K]: splits that have ended, 0 before and after (one_token.h)
  std::int32_t tail_width = 0;
  std::int32_t values_are_keys = 0;  // v is the first V elements of each key
  std::int32_t key_rows = 0;         // rows of k per batch row, in one batch row of k ...
  std::int32_t batch_per_keys = 1;   // ... that this many batch rows of q share
  std::int32_t splits = 1, keys_per_split = 0;
  std::int32_t vectors = 0;  // rows can be copied in vectors of 16 bytes
  // Elements between rows in shared memory.
  std::int32_t key_stride = 0, value_stride = 0;
};

// Merges the splits of each row.
struct MergeParams {
  AttentionSizes size{};
  SmallInput sinks{};
  gpu::Address partial_y{}, partial_top{}, partial_sum{};
  gpu::Address y{}, lse{};
  std::int32_t splits = 1;
};

// Spans of tiles of rows and of keys: one warp per tile.
struct SpansParams {
  AttentionSizes size{};
  VisibilityParams seen{};
  gpu::Address query_spans{}, key_spans{};
};

// Tiles that the mask keeps pairs of: one block per (batch row, mask head, row tile).
struct KeptTilesParams {
  AttentionSizes size{};
  gpu::Address keep{}, tiles{};
  std::int32_t by_head = 0;
};

// The gradients of attention.
struct AttentionGradParams {
  AttentionSizes size{};
  VisibilityParams seen{};
  LogitParams logits{};
  SmallInput sinks{};
  gpu::Address q{}, k{}, v{}, y{}, dy{}, lse{};
  gpu::Address dots{};  // [B, N, T]: y . dy, written first
  gpu::Address dq{}, dk{}, dv{}, dsinks{}, dslopes{}, dbias{};
  // [B, K, rows] and [B, K, row tiles, group, distances], reduced at the end.
  gpu::Address partial_slopes{}, partial_bias{};
  std::int32_t vectors = 0;
  std::int32_t stages = 1;  // 2: tiles of the others have two places, and one is copied early
  std::int32_t key_stride = 0, value_stride = 0;
};

// out[n] = the maximum of tops[b, n, t].
struct HeadMaxParams {
  gpu::Address tops{}, out{};
  std::int32_t batch = 0, heads = 0, tokens = 0;
};

// index_scores[B, T, S] and its gradients; also attention_mass, with keys and lse for each head.
struct PairSumParams {
  std::int32_t batch = 0, tokens = 0, keys = 0, heads = 0, width = 0;
  double scale = 1;
  gpu::Address q{}, k{}, weights{}, lse{}, keep{}, out{};
  gpu::Address starts{};  // with stride: keys from (start + tokens) / stride on have 0
  std::int32_t stride = 1;
  std::int32_t vectors = 0, key_stride = 0;
};

struct IndexGradParams {
  AttentionSizes size{};  // group = heads, one key head
  gpu::Address q{}, k{}, weights{}, dscores{}, dq{}, dk{}, dweights{};
  std::int32_t vectors = 0, key_stride = 0;
};

// The best k visible keys of each row of scores.
struct TopKMaskParams {
  gpu::Address scores{}, segments{}, starts{}, mask{};
  std::int32_t batch = 0, tokens = 0, keys = 0, k = 0, causal = 1;
};

// moba_mask: q[B, T, N, H], k[B, S, K, H], means[B, chunks, K, H], mask[B, N, T, S].
struct MobaMaskParams {
  gpu::Address q{}, k{}, starts{}, means{}, mask{};
  std::int32_t batch = 0, tokens = 0, keys = 0, heads = 0, kv_heads = 0, width = 0;
  std::int32_t chunks = 0, size = 1, best = 1;  // chunks of `size` keys; the mask keeps `best`
};

// The slots that each token of compressed_attention_step sees: counts[B T], slots[B T, max_slots].
struct CompressedSlotsParams {
  gpu::Address starts{}, scores{}, counts{}, slots{};
  std::int32_t batch = 0, tokens = 0, ring = 0, entries = 0, window = 0, ratio = 1, k = 0;
  std::int32_t max_slots = 0;
};

// Products of the heads of latent attention with the parts of w_kv[N (nope + value), R].
struct LatentProductParams {
  gpu::Address x{}, w{}, out{};
  std::int64_t rows = 0;  // batch * tokens
  std::int32_t heads = 0, rank = 0, nope = 0, rope = 0, value = 0;
  std::int32_t vectors = 0;  // rows of w can be read in vectors of 4
};

}  // namespace lamina::cuda
