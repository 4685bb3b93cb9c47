// The example plugin reads a small BLOOM checkpoint under its published names: logits equal plain
// loops over the papers' equations. BigScience Workshop 2022, section 3.2; Press et al. 2022,
// section 3.
#include <gtest/gtest.h>

#include "examples/reference.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kVocab = 37, kWidth = 24, kLayers = 2;
constexpr double kEps = 1e-5;

struct Bloom : Checkpoint {
  void add_linear(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {out, in}, -0.4, 0.4);
    add(name + ".bias", {out}, -0.2, 0.2);
  }
  void add_norm(const std::string& name) {
    add(name + ".weight", {kWidth}, 0.5, 1.5);
    add(name + ".bias", {kWidth}, -0.2, 0.2);
  }

  Bloom() {
    add("word_embeddings.weight", {kVocab, kWidth}, -1, 1);
    add_norm("word_embeddings_layernorm");
    add_norm("ln_f");
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = "h." + std::to_string(i);
      add_norm(layer + ".input_layernorm");
      add_norm(layer + ".post_attention_layernorm");
      add_linear(layer + ".self_attention.query_key_value", 3 * kWidth, kWidth);
      add_linear(layer + ".self_attention.dense", kWidth, kWidth);
      add_linear(layer + ".mlp.dense_h_to_4h", 4 * kWidth, kWidth);
      add_linear(layer + ".mlp.dense_4h_to_h", kWidth, 4 * kWidth);
    }
  }
};

std::string config(std::int64_t heads, bool residual_after_norm) {
  return fmt::format(R"({{"model_type": "bloom", "architectures": ["BloomForCausalLM"],
    "vocab_size": 37, "hidden_size": 24, "n_layer": 2, "n_head": {}, "layer_norm_epsilon": 1e-5,
    "apply_residual_connection_post_layernorm": {}, "hidden_dropout": 0.0, "offset_alibi": 100,
    "seq_length": 2048, "attention_softmax_in_fp32": true}})",
                     heads, residual_after_norm);
}

// The papers' equations for one row.
class Reference {
 public:
  Reference(const Checkpoint& checkpoint, std::vector<double> slopes, bool residual_after_norm)
      : checkpoint_(checkpoint),
        slopes_(std::move(slopes)),
        residual_after_norm_(residual_after_norm) {}

  // Returns all logits, token by token.
  Vector run(std::span<const std::int32_t> ids) const {
    std::vector<Vector> x;
    for (std::int32_t id : ids)
      x.push_back(
          norm(checkpoint_.row("word_embeddings.weight", id, kWidth), "word_embeddings_layernorm"));
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = "h." + std::to_string(i);
      attend(layer, x);
      for (Vector& token : x) feed_forward(layer, token);
    }
    Vector logits;
    const Vector table = checkpoint_.get("word_embeddings.weight");
    for (const Vector& token : x) {
      const Vector h = norm(token, "ln_f");
      for (std::size_t v = 0; v < kVocab; ++v) {
        double sum = 0;
        for (std::size_t i = 0; i < kWidth; ++i) sum += table[v * kWidth + i] * h[i];
        logits.push_back(sum);
      }
    }
    return logits;
  }

 private:
  Vector norm(const Vector& x, const std::string& name) const {
    const Vector w = checkpoint_.get(name + ".weight"), b = checkpoint_.get(name + ".bias");
    double mean = 0, variance = 0;
    for (double v : x) mean += v / double(x.size());
    for (double v : x) variance += (v - mean) * (v - mean) / double(x.size());
    return map(x, [&](double v, std::size_t i) {
      return (v - mean) / std::sqrt(variance + kEps) * w[i] + b[i];
    });
  }
  Vector sum(const Vector& a, const Vector& b) const {
    return map(a, [&](double v, std::size_t i) { return v + b[i]; });
  }

  void attend(const std::string& layer, std::vector<Vector>& x) const {
    const std::size_t heads = slopes_.size(), width = kWidth / heads;
    std::vector<Vector> normed, qkv;
    for (const Vector& token : x) {
      normed.push_back(norm(token, layer + ".input_layernorm"));
      qkv.push_back(checkpoint_.product(layer + ".self_attention.query_key_value", normed.back()));
    }
    for (std::size_t t = 0; t < x.size(); ++t) {
      Vector out(kWidth);
      for (std::size_t n = 0; n < heads; ++n) {
        const std::size_t q = 3 * n * width, k = q + width, v = k + width;
        Vector p(t + 1);
        double total = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double logit = 0;
          for (std::size_t i = 0; i < width; ++i) logit += qkv[t][q + i] * qkv[s][k + i];
          p[s] = std::exp(logit / std::sqrt(double(width)) - slopes_[n] * double(t - s));
          total += p[s];
        }
        for (std::size_t s = 0; s <= t; ++s)
          for (std::size_t i = 0; i < width; ++i)
            out[n * width + i] += p[s] / total * qkv[s][v + i];
      }
      x[t] = sum(residual_after_norm_ ? normed[t] : x[t],
                 checkpoint_.product(layer + ".self_attention.dense", out));
    }
  }

  void feed_forward(const std::string& layer, Vector& x) const {
    const Vector h = norm(x, layer + ".post_attention_layernorm");
    const Vector inner =
        map(checkpoint_.product(layer + ".mlp.dense_h_to_4h", h), [](double v, std::size_t) {
          return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
        });
    x = sum(residual_after_norm_ ? h : x, checkpoint_.product(layer + ".mlp.dense_4h_to_h", inner));
  }

  const Checkpoint& checkpoint_;
  std::vector<double> slopes_;
  bool residual_after_norm_;
};

// Slopes as in Press et al.: for 8 heads 1/2 to 1/256; otherwise the slopes for twice the next
// lower power of two are inserted between them.
TEST(BloomExample, LogitsEqualThePapersEquations) {
  const Bloom checkpoint;
  const std::map<std::int64_t, std::vector<double>> slopes = {
      {8, {1. / 2, 1. / 4, 1. / 8, 1. / 16, 1. / 32, 1. / 64, 1. / 128, 1. / 256}},
      {6, {1. / 4, 1. / 16, 1. / 64, 1. / 256, 1. / 2, 1. / 8}}};
  for (const auto& [heads, of_heads] : slopes)
    for (bool after : {false, true}) {
      const Reference reference(checkpoint, of_heads, after);
      EXPECT_LE(
          error_of(checkpoint, config(heads, after), [&](auto ids) { return reference.run(ids); }),
          2e-5)
          << heads << " heads";
    }
}

}  // namespace
}  // namespace lamina::testing
