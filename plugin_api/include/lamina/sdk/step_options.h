// The options of Step's functions (step.h): of the layers that mix tokens, of losses, metrics and
// updates.
#pragma once

#include <cstdint>
#include <string_view>

#include "lamina/ext/auxiliary.h"
#include "lamina/sdk/op_options.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// window: keys a query sees, including itself; chunk: only keys of the same chunk. 0 = all.
// scale 0 = 1 / sqrt(head width).
struct AttendOptions {
  LAMINA_ATTENTION_OPTIONS
  // Mixture of block attention: chunk size in tokens (0 = off) and chunks per query, chosen by the
  // score of their mean key; the query's chunk always counts. Lu et al. 2025. Cannot be combined
  // with a window.
  std::int64_t moba_chunk = 0, moba_top_k = 0;
  bool see_images = false;  // the tokens of an image see each other in both directions
  Tensor sinks = {};        // [N], one more logit per head
  // Added to the logits by the distance d of query and key: -slopes[n] d, see alibi_slopes(), and
  // bias[n, min(d, R - 1)], a learnt relative position.
  Tensor slopes = {};             // [N]
  Tensor bias = {};               // [N, R]
  std::string_view state = "kv";  // unique in the block
};

// activation: none or silu; across: state crosses document boundaries.
struct ConvolveOptions {
  LAMINA_CAUSAL_CONV1D_OPTIONS
  std::string_view state = "conv";  // unique in the block
};

// scale 0 = 1 / sqrt(key width); normalize: q and k are divided by their L2 norm; across: state
// crosses document boundaries.
struct DeltaRuleOptions {
  LAMINA_GATED_DELTA_RULE_OPTIONS
  std::string_view state = "recurrent";  // unique in the block
};

struct ScanMatrixOptions {
  Tensor a = {}, b = {};  // both or neither: S += a outer (b^T S)
  LAMINA_MATRIX_SCAN_OPTIONS
  std::string_view state = "recurrent";  // unique in the block
};

// nope_dim: width of the part of a head without rotary positions; scale 0 = 1 / sqrt(width of q).
struct AttendLatentOptions {
  LAMINA_LATENT_ATTENTION_OPTIONS
  Tensor mask = {};                   // bool[B, T, S]: keys that may be seen, eg: top_k_mask()
  std::string_view state = "latent";  // unique in the block
};

struct IndexScoresOptions {
  std::int64_t stride = 1;                // tokens covered by each key
  std::string_view state = "index_keys";  // unique in the block
};

struct WindowPoolOptions {
  bool overlap = false;               // each window also contains the tokens of the one before it
  std::string_view state = "window";  // unique in the block
};

struct LossOptions {
  std::string_view weight_key = {};  // config key of the weight; empty = 1
  bool mean = false;                 // mean over the layers that add it, not the sum
};

// Reduces a metric over microbatches.
enum class Reduce : std::uint32_t {
  sum = LAMINA_REDUCE_SUM,
  mean = LAMINA_REDUCE_MEAN,
  max = LAMINA_REDUCE_MAX
};

// p += rate * value, p += rate * sign(value), p = value.
enum class Update : std::uint32_t {
  add = LAMINA_UPDATE_ADD,
  sign_step = LAMINA_UPDATE_SIGN_STEP,
  assign = LAMINA_UPDATE_ASSIGN
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
