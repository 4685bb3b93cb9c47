// Options of the host's [model] keys that change the blocks of any family (decoder/rewrite).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/row_formats.h"

namespace lamina::decoder {

// The part of a layer that dropout zeroes: x + f(x), f(x) or nothing.
enum class LayerDropout { output, update, none };

// The keys that a query sees: as declared by the blocks; all before it; the last of them; those in
// its chunk; also later ones; all before it and those in its block (block diffusion: Arriola et al.
// 2025).
enum class AttentionKind { declared, global, sliding, chunk, full, blocks };

struct BlockOptions {
  // Shares of elements zeroed in training; 0: none, and no op.
  double dropout = 0;  // of layers, and of the input of a feed-forward's last matrix
  LayerDropout layer_dropout = LayerDropout::output;
  double attention_dropout = 0;  // of attention's probabilities
  double attention_cap = 0;      // soft cap of attention's scores; 0: as declared by the blocks
  // Rotary positions: tokens per radian of the fastest frequency, and the divisor of positions.
  double min_timescale = 1, linear_scaling = 1;
  double rotary_share = 1;  // of a head's width that rotates, from its start

  // RMS norms per head of queries and keys, and of values, before positions: their presence, their
  // weights, their epsilon. Nothing: as declared by the blocks.
  std::optional<bool> qk_norm, qk_norm_weight, v_norm, v_norm_weight;
  std::optional<double> qkv_norm_eps;
  double norm_eps = 1e-6;  // of such norms that the host adds, if qkv_norm_eps does not say
  bool share_kv = false;   // values are keys as their matrix gives them
  bool sinks = false;      // attention has one more logit per head
  // Activations of dense feed-forwards, with a matrix for each, whose activated products are
  // multiplied; names as in config.json, and "linear". Empty: as declared by the blocks.
  std::vector<std::string> mlp_activations;

  bool random_routing = false;  // in training experts are chosen at random

  AttentionKind attention_kind = AttentionKind::declared;
  std::int64_t attention_span = 0;  // tokens of a window, chunk or block
  // Mixture of block attention: tokens of a chunk, 0 for none, and chunks per query.
  std::int64_t moba_chunk = 0, moba_top_k = 0;

  // The numbers of keys and values in decode state; nothing: as computed.
  std::optional<formats::RowNumbers> kv_numbers;

  bool remake_attention() const {
    return qk_norm || qk_norm_weight || v_norm || v_norm_weight || qkv_norm_eps || share_kv ||
           sinks;
  }
  // True if ops of a block are replaced by others, and the old ones are not read any more.
  bool remake() const { return remake_attention() || !mlp_activations.empty(); }
};

// The parts of a block that keys can change.
struct BlockParts {
  bool attention = false, rotations = false, feed_forward = false, router = false;
  bool qkv_norms = false;  // found only where attention is remade, after keys have changed them

  void operator|=(const BlockParts& other) {
    attention |= other.attention;
    rotations |= other.rotations;
    feed_forward |= other.feed_forward;
    router |= other.router;
    qkv_norms |= other.qkv_norms;
  }
};

}  // namespace lamina::decoder
