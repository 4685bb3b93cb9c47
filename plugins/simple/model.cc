// The smallest possible decoders, for benchmarks and tests of everything around the layers:
// `simple` is one matrix per layer, `simple_mlp` two. No norm, residual, activation or attention.
// After the blocks with the same names in MaxText.
//
// Shapes: B batch, T tokens, D model width, F feed-forward width.

#include "lamina/sdk.h"

namespace simple {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers, intermediate_size;
  bool tie_word_embeddings;
  double rms_norm_eps, initializer_range;
};

Tensor matrix_block(Scope s, const Config& c, Tensor x_BTD, const Step&) {
  return linear(s / "weights", x_BTD, c.hidden_size);
}

Tensor mlp_block(Scope s, const Config& c, Tensor x_BTD, const Step&) {
  Tensor h_BTF = linear(s / "ff_1", x_BTD, c.intermediate_size, {.out = axis::mlp});
  return linear(s / "ff_2", h_BTF, c.hidden_size, {.in = axis::mlp});
}

void keys(Schema<Config>& key) {
  key("vocab_size", &Config::vocab_size,
      {.required = true, .min = 1, .doc = "rows of the token table"});
  key("hidden_size", &Config::hidden_size, {.required = true, .min = 1, .doc = "model width D"});
  key("num_hidden_layers", &Config::num_hidden_layers,
      {.required = true, .min = 1, .doc = "decoder layers"});
  key("tie_word_embeddings", &Config::tie_word_embeddings,
      {.fallback = false, .doc = "the head is the token table"});
  key("rms_norm_eps", &Config::rms_norm_eps,
      {.fallback = 1e-5, .above = 0, .doc = "added to the mean square in the final norm"});
  key("initializer_range", &Config::initializer_range,
      {.fallback = 0.02, .above = 0, .doc = "standard deviation of fresh weights"});
}

void mlp_keys(Schema<Config>& key) {
  keys(key);
  key("intermediate_size", &Config::intermediate_size,
      {.required = true, .min = 1, .doc = "feed-forward width F"});
}

constexpr std::uint32_t kBlock = 1;
std::vector<Block<Config>> matrix_blocks() { return {{kBlock, "simple", matrix_block}}; }
std::vector<Block<Config>> mlp_blocks() { return {{kBlock, "simple_mlp", mlp_block}}; }

// Our own names, so that checkpoints can be exported and read back.
std::vector<Weight> matrix_weights() {
  return weight_rows(
      {outer_weights(), {kBlock, "weights.weight", "model.layers.{L}.weights.weight"}});
}

std::vector<Weight> mlp_weights() {
  return weight_rows({outer_weights(),
                      {kBlock, "ff_1.weight", "model.layers.{L}.ff_1.weight"},
                      {kBlock, "ff_2.weight", "model.layers.{L}.ff_2.weight"}});
}

constexpr Model<Config> kSimple = {
    .family = {.name = "simple",
               .hf_model_types = {"simple"},
               .hf_architectures = {"SimpleForCausalLM"},
               .doc = "one matrix per layer; for tests and benchmarks"},
    .keys = keys,
    .blocks = matrix_blocks,
    .weights = matrix_weights,
};

constexpr Model<Config> kSimpleMlp = {
    .family = {.name = "simple_mlp",
               .hf_model_types = {"simple_mlp"},
               .hf_architectures = {"SimpleMlpForCausalLM"},
               .doc = "two matrices per layer; for tests and benchmarks"},
    .keys = mlp_keys,
    .blocks = mlp_blocks,
    .weights = mlp_weights,
};

}  // namespace
}  // namespace simple

LAMINA_PLUGIN("org.lamina.simple", "0.1.0", simple::kSimple, simple::kSimpleMlp)
