#include "config/model_keys.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "config/run_config.h"

namespace lamina::config {
namespace {

constexpr double kMaxRows = std::numeric_limits<std::int32_t>::max();

Key integer(std::string name, std::int64_t preset, double min, double max, std::string doc) {
  Key key{.name = std::move(name), .type = Type::integer, .preset = Value(preset)};
  key.min = min;
  key.max = max;
  key.doc = std::move(doc);
  return key;
}

Key integers(std::string name, double min, double max, std::string doc) {
  Key key{.name = std::move(name),
          .type = Type::list,
          .element = Type::integer,
          .preset = Value(List{})};
  key.min = min;
  key.max = max;
  key.doc = std::move(doc);
  return key;
}

Key flag(std::string_view name, std::string doc) {
  Key key{.name = std::string(name), .type = Type::boolean, .preset = Value(false)};
  key.doc = std::move(doc);
  return key;
}

// A key whose value must be at least 0.
Key number(std::string_view name, double preset, std::string doc) {
  Key key{.name = std::string(name), .type = Type::number, .preset = Value(preset)};
  key.min = 0;
  key.doc = std::move(doc);
  return key;
}

Key factor(std::string_view name, std::string doc) {
  Key key = number(name, 1, std::move(doc));
  key.min_excluded = true;
  return key;
}

Key rate(std::string_view name, std::string doc) {
  Key key = number(name, 0, std::move(doc));
  key.max = 1;
  key.max_excluded = true;
  key.hot = true;
  return key;
}

Key choice(std::string_view name, std::vector<std::string> choices, std::string doc) {
  Key key{.name = std::string(name), .type = Type::string, .preset = Value(choices.front())};
  key.choices = std::move(choices);
  key.doc = std::move(doc);
  return key;
}

// A key without a default: unless given, the model stays as its family describes it.
Key own_choice(std::string_view name, Type type, std::string doc) {
  Key key{.name = std::string(name), .type = type};
  key.preset_text = "as the family";
  key.doc = std::move(doc);
  return key;
}

Key own_eps(std::string_view name, std::string doc) {
  Key key = own_choice(name, Type::number, std::move(doc));
  key.min = 0;
  key.min_excluded = true;
  return key;
}

std::vector<Key> attention_keys() {
  Key type = own_choice(
      kAttentionType, Type::string,
      "Tokens that attention can see, in every layer: all earlier tokens, a window of them, the "
      "same "
      "chunk, or also later tokens: the same block (\"block_diffusion\") or all (\"full\"). "
      "Models that see later tokens can be trained and evaluated but not decoded.");
  type.choices = {"global", "local_sliding", "chunk", "full", "block_diffusion"};
  return {
      type,
      integer(std::string(kSlidingSpan), 0, 0, kMaxRows,
              "Window of local_sliding attention in tokens, including the query's."),
      integer(std::string(kChunkSpan), 0, 0, kMaxRows, "Tokens per chunk of chunked attention."),
      integer(std::string(kBlockSpan), 0, 0, kMaxRows,
              "Tokens per block of block_diffusion attention. Blocks are cut by the position in "
              "the document; tokens see their own block and all earlier ones."),
      integer(std::string(kMobaChunk), 0, 0, kMaxRows,
              "Tokens per chunk of mixture of block attention; 0 = off."),
      integer(std::string(kMobaTopK), kMobaTopKPreset, 1, kMaxRows,
              "Chunks per query in mixture of block attention: those whose mean key has the "
              "largest product with the query. The query's own chunk is always included."),
      choice(kKvDtype, {std::string(kKvAsComputed), "int8", "fp8"},
             "Numbers of keys and values in decode state: the type of the computation, or one byte "
             "each, with a scale per token and head. Has no effect in training."),
  };
}

std::vector<Key> part_keys() {
  Key activations = own_choice(
      kMlpActivations, Type::list,
      "Activations of dense feed-forwards. Each has a matrix, and their results are multiplied; "
      "[\"silu\", \"linear\"] is the usual gate, [\"relu\"] has no gate.");
  activations.choices = {"silu",      "swish", "gelu",  "gelu_new", "gelu_pytorch_tanh",
                         "gelu_fast", "relu",  "relu2", "sigmoid",  "linear"};
  return {
      own_choice(kUseQkNorm, Type::boolean,
                 "RMS norms of queries and keys before positions are applied; per head unless the "
                 "family has its own kind."),
      own_choice(kQkNormWithScale, Type::boolean,
                 "True if the norms of queries and keys have weights."),
      own_choice(kUseVNorm, Type::boolean, "RMS norm of values, per head."),
      own_choice(kVNormWithScale, Type::boolean, "True if the norm of values has weights."),
      own_eps(kQkvNormEps, "Epsilon of norms of queries, keys and values."),
      flag(kSinks,
           "An additional trained logit per query head that takes part in the softmax and has no "
           "value."),
      flag(kShareKv, "Values are the keys as projected, before norm and positions."),
      activations,
  };
}

std::vector<Key> routing_keys() {
  return {flag(kRandomRouting,
               "In training, route tokens to experts at random with equal probability; for "
               "measuring speed with an even load.")};
}

std::vector<Key> initializer_keys() {
  return {
      choice(kInitializer, {"declared", std::string(kInitializerMaxtext)},
             "Initialisation of fresh weights: as the family declares, usually with the standard "
             "deviation initializer_range; or by fan-in, as in MaxText."),
      factor(kDenseInitScale,
             "Variance of fresh routers, experts and shared experts, times the fan-in."),
  };
}

std::vector<Key> layer_keys() {
  Key share = factor(kRotaryShare,
                     "Share of a head's channels that are rotated, starting with the first; it "
                     "must give a whole number of pairs.");
  share.max = 1;
  Key place = choice(kLayerDropout, {"output", "update", "none"},
                     "The position of dropout_rate in a layer: its output, its update before the "
                     "residual sum, or nowhere.");
  place.hot = true;
  return {
      rate(kDropout,
           "Dropout in training on embeddings, on the input of the last matrix of a feed-forward, "
           "on layers and on the input of the head. All tokens of a row drop the same channels; "
           "on residual streams, only the streams of one token do."),
      place,
      rate(kAttentionDropout,
           "Dropout on attention probabilities in training. They are then stored: the square of "
           "the row length, for each head."),
      number(kAttentionCap, 0, "Soft cap c of attention scores, c * tanh(x / c); 0 = off."),
      factor(
          kMinTimescale,
          "Tokens per radian m of the fastest rotary frequency; pair i has m * (rope_theta / m)^(2 "
          "i / dims)."),
      factor(kLinearScaling, "Positions are divided by this factor before rotation."),
      share,
  };
}

std::vector<Key> stack_keys() {
  return {
      integer(std::string(kPositionRows), 0, 0, kMaxRows,
              "Rows of a table of trained positions that is added to the embedding; 0 = none."),
      flag(kSinusoids, "Add sines and cosines of the position to the embedding."),
      flag(kNormalizeLogits, "Divide logits by sqrt(hidden_size), with a tied head."),
      factor(kLogitScale, "Factor for logits, applied before the soft cap."),
      number(kLogitCap, 0, "Soft cap c of the logits, c * tanh(x / c); 0 = off."),
      own_eps(kFinalNormEps, "Epsilon of the norm before the head."),
  };
}

std::vector<Key> engram_keys() {
  Key eps{.name = std::string(kEngramNormEps), .type = Type::number, .preset = Value(1e-6)};
  eps.preset_text = "rms_norm_eps of the family, else 1e-06";
  eps.min = 0;
  eps.min_excluded = true;
  eps.doc = "Epsilon of Engram's RMS norms, added to the mean square.";
  Key across{.name = "engram_across_documents", .type = Type::boolean, .preset = Value(false)};
  across.doc =
      "N-grams and the convolution cross the boundaries of packed documents, as in "
      "MaxText.";
  return {
      integers(
          std::string(kEngramLayers), 0, kMaxRows,
          "Indices, from 0, of the layers that an Engram module precedes. Table sizes depend on "
          "their order."),
      integer("engram_max_ngram_size", 3, 2, 64,
              "Length of the longest n-gram in tokens; also the dilation of the convolution."),
      integer("engram_num_heads", 8, 1, 1024, "Hash tables per n-gram length."),
      integer("engram_head_dim", 1280, 1, 1 << 20, "Width of a table row."),
      integers("engram_vocab_bases", 2, kMaxRows,
               "Minimum rows per table, one number per n-gram length from 2 on. The actual sizes "
               "are distinct primes, at least this large."),
      integer("engram_kernel_size", 4, 1, 1024, "Kernel size of the convolution over time."),
      integer("engram_seed", 0, 0, 1e15, "Seed of the n-gram hash."),
      eps,
      across,
  };
}

}  // namespace

const std::vector<Key>& host_model_keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> out = stack_keys();
    std::ranges::move(layer_keys(), std::back_inserter(out));
    std::ranges::move(part_keys(), std::back_inserter(out));
    std::ranges::move(routing_keys(), std::back_inserter(out));
    std::ranges::move(attention_keys(), std::back_inserter(out));
    std::ranges::move(initializer_keys(), std::back_inserter(out));
    std::ranges::move(engram_keys(), std::back_inserter(out));
    return out;
  }();
  return keys;
}

bool is_engram_key(std::string_view name) { return name.starts_with("engram_"); }

const Schema& documented_schema() {
  static const Schema schema = [] {
    Schema out = run_schema();
    auto model = std::ranges::find(out.sections, "model", &Section::name);
    model->keys.insert(model->keys.end(), host_model_keys().begin(), host_model_keys().end());
    return out;
  }();
  return schema;
}

}  // namespace lamina::config
