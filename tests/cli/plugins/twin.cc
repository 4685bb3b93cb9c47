// A family for tests: it reads the published names of `simple`, and computes another model.
//
// Shapes: B batch, T tokens, D model width.

#include "lamina/sdk.h"

namespace twin {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
  bool tie_word_embeddings;
  double rms_norm_eps, initializer_range;
};

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step&) {
  return x_BTD + linear(s / "weights", x_BTD, c.hidden_size);
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

constexpr std::uint32_t kBlock = 1;
std::vector<Block<Config>> blocks() { return {{kBlock, "twin", block}}; }

std::vector<Weight> weights() {
  return weight_rows(
      {outer_weights(), {kBlock, "weights.weight", "model.layers.{L}.weights.weight"}});
}

constexpr Model<Config> kModel = {
    .family = {.name = "twin",
               .hf_model_types = {"simple"},
               .hf_architectures = {"SimpleForCausalLM"},
               .doc = "one matrix per layer, added to its input"},
    .keys = keys,
    .blocks = blocks,
    .weights = weights,
};

}  // namespace
}  // namespace twin

LAMINA_PLUGIN("org.lamina.twin", "0.1.0", twin::kModel)
