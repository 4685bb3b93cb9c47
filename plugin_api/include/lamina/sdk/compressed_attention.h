// Attention over windows of tokens, each pooled to one entry. DeepSeek-AI 2026 (DeepSeek V4):
// compressed sparse and heavily compressed attention.
//
//   Windows windows = window_ends(step.positions_BT, 4);
//   Tensor pooled_BWD = step.window_pool(values_BTC, gates_BTC, bias, windows, {.overlap = true});
//   Tensor entries_BWD = ...;  // normed, rotated by windows.starts_BW
//   Tensor o_BTND = step.compressed_attention(q_BTND, kv_BTD, entries_BWD, windows, {...});
#pragma once

#include "lamina/sdk/ops.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// The windows of `ratio` tokens of a document whose last token is in the row.
struct Windows {
  std::int64_t ratio = 1;
  Tensor ends_BW;    // i32: index in the row of the last token; -1 = none
  Tensor starts_BW;  // i32: position of the first token
};
inline Windows window_ends(Tensor positions, std::int64_t ratio, At at = At::current()) {
  const auto [ends, starts] = emit_all<Op::window_ends>(
      std::array{positions}, Attrs<Op::window_ends>().integer("ratio", ratio), State{}, at);
  return {ratio, ends, starts};
}

// Pools values, gates[B, T, D] with bias[ratio, D] to [B, W, D]; with overlap they have 2 D
// channels, see ops.def. The state (LAMINA_STATE_CONV_WINDOW: channels of values and gates
// together, tokens of the longest window) keeps the tokens of unfinished windows. [trace]
inline Tensor window_pool(Tensor values, Tensor gates, Tensor bias, const Windows& windows,
                          bool overlap, State state, At at = At::current()) {
  Attrs<Op::window_pool> attrs;
  attrs.integer("ratio", windows.ratio).flag("overlap", overlap);
  return emit_all<Op::window_pool>(
             std::array{values, gates, bias, windows.ends_BW, windows.starts_BW}, attrs, state, at)
      .front();
}

struct CompressedAttentionOptions {
  std::int64_t window = 1;  // uncompressed tokens a query sees, including itself
  std::int64_t k = 0;       // entries kept per query if there are scores
  double scale = 0;         // 0 = 1 / sqrt(head width)
};
// Maps q[B, T, N, D], kv[B, T, D], entries[B, W, D] to [B, T, N, D]; scores f32[B, T, W] and
// sinks[N] may be empty. The state has kind LAMINA_STATE_KV: one head as wide as kv, `window`
// tokens. [trace]
inline Tensor compressed_attention(Tensor q, Tensor kv, Tensor entries, const Windows& windows,
                                   Tensor positions, const CompressedAttentionOptions& o,
                                   State state, Tensor scores = {}, Tensor sinks = {},
                                   At at = At::current()) {
  Attrs<Op::compressed_attention> attrs;
  attrs.integer("ratio", windows.ratio).integer("window", o.window).integer("k", o.k);
  attrs.number("scale", o.scale);
  const Tensor ends = tag(windows.ends_BW, tags::window_ends, at);
  entries = tag(entries, tags::compressed_entries, at);
  if (scores.handle != 0) scores = tag(scores, tags::indexer_scores, at);
  const std::array inputs{q, kv, entries, ends, windows.starts_BW, positions, scores, sinks};
  Tensor y = emit_all<Op::compressed_attention>(inputs, attrs, state, at).front();
  return tag(y, tags::attention_out, at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
