// The example plugin reads a small RWKV-7 checkpoint under its published names: logits equal plain
// loops over the paper's equations. Peng et al. 2025, "RWKV-7 Goose with Expressive Dynamic State
// Evolution", section 4.
#include <gtest/gtest.h>

#include "examples/reference.h"
#include "support/expect_error.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kVocab = 37, kWidth = 24, kHead = 8, kLayers = 3, kInner = 40, kRank = 5;
constexpr double kEps = 1e-5;

struct Goose : Checkpoint {
  void add_low_rank(const std::string& name, bool bias) {
    add(name + ".lora.0.weight", {kRank, kWidth}, -0.5, 0.5);
    add(name + ".lora.2.weight", {kWidth, kRank}, -0.5, 0.5);
    if (bias) add(name + ".lora.2.bias", {kWidth}, -1, 1);
  }
  void add_norm(const std::string& name) {
    add(name + ".weight", {kWidth}, 0.5, 1.5);
    add(name + ".bias", {kWidth}, -0.2, 0.2);
  }

  Goose() {
    add("model.embeddings.weight", {kVocab, kWidth}, -1, 1);
    add("lm_head.weight", {kVocab, kWidth}, -0.5, 0.5);
    add_norm("model.norm");
    add_norm("model.layers.0.pre_norm");
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i), attn = layer + ".attn";
      add_norm(layer + ".attn_norm");
      add_norm(layer + ".ffn_norm");
      for (const char* name : {".x_r", ".x_w", ".x_k", ".x_v", ".x_a", ".x_g"})
        add(attn + name, {1, 1, kWidth}, 0, 1);
      for (const char* name : {".r_proj", ".k_proj", ".v_proj", ".o_proj"})
        add(attn + name + ".weight", {kWidth, kWidth}, -0.4, 0.4);
      add_low_rank(attn + ".w_lora", true);
      add_low_rank(attn + ".a_lora", true);
      add_low_rank(attn + ".g_lora", false);
      if (i > 0) add_low_rank(attn + ".v_lora", true);
      add(attn + ".k_k", {kWidth}, 0.5, 1);
      add(attn + ".k_a", {kWidth}, 0.5, 1.5);
      add(attn + ".r_k", {kWidth / kHead, kHead}, -0.5, 0.5);
      add_norm(attn + ".g_norm");
      add(layer + ".ffn.x_k", {kWidth}, 0, 1);
      add(layer + ".ffn.key.weight", {kInner, kWidth}, -0.4, 0.4);
      add(layer + ".ffn.value.weight", {kWidth, kInner}, -0.4, 0.4);
    }
  }
};

const std::string kConfig = R"({"model_type": "rwkv7", "architectures": ["RWKV7ForCausalLM"],
  "vocab_size": 37, "hidden_size": 24, "num_hidden_layers": 3, "head_dim": 8,
  "intermediate_size": 40, "norm_eps": 1e-5, "hidden_act": "sqrelu", "norm_first": true,
  "decay_low_rank_dim": 5, "gate_low_rank_dim": 5, "a_low_rank_dim": 5, "v_low_rank_dim": 5,
  "attn": null, "fuse_norm": true, "tie_word_embeddings": false})";

// The paper's equations for one row, token by token.
class Reference {
 public:
  explicit Reference(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // Returns all logits, token by token.
  Vector run(std::span<const std::int32_t> ids) {
    std::vector<Vector> x;
    for (std::int32_t id : ids) {
      const Vector row = checkpoint_.row("model.embeddings.weight", id, kWidth);
      x.push_back(norm(row, "model.layers.0.pre_norm"));
    }
    std::vector<Vector> first_values(x.size());
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i);
      time_mix(layer, x, first_values);
      channel_mix(layer, x);
    }
    Vector logits;
    for (const Vector& token : x)
      for (double logit : product("lm_head", norm(token, "model.norm"))) logits.push_back(logit);
    return logits;
  }

 private:
  Vector get(const std::string& name) const { return checkpoint_.get(name); }
  Vector product(const std::string& name, const Vector& x) const {
    return checkpoint_.product(name, x);
  }
  // Normalises groups of `width` to mean 0 and deviation 1.
  static Vector normed(Vector x, std::size_t width, double eps) {
    for (std::size_t first = 0; first < x.size(); first += width) {
      double mean = 0, variance = 0;
      for (std::size_t i = first; i < first + width; ++i) mean += x[i] / double(width);
      for (std::size_t i = first; i < first + width; ++i)
        variance += (x[i] - mean) * (x[i] - mean) / double(width);
      for (std::size_t i = first; i < first + width; ++i)
        x[i] = (x[i] - mean) / std::sqrt(variance + eps);
    }
    return x;
  }
  Vector gained(const Vector& x, const std::string& name) const {
    const Vector w = get(name + ".weight"), b = get(name + ".bias");
    return map(x, [&](double v, std::size_t i) { return v * w[i] + b[i]; });
  }
  Vector norm(const Vector& x, const std::string& name) const {
    return gained(normed(x, x.size(), kEps), name);
  }
  template <typename F>
  Vector low_rank(const std::string& name, const Vector& x, F f) const {
    const Vector h = map(product(name + ".lora.0", x), [&](double v, std::size_t) { return f(v); });
    return product(name + ".lora.2", h);
  }
  // x + (previous - x) mix.
  Vector shifted(const Vector& x, const Vector& previous, const std::string& name) const {
    const Vector mix = get(name);
    return map(x, [&](double v, std::size_t i) { return v + (previous[i] - v) * mix[i]; });
  }

  void time_mix(const std::string& layer, std::vector<Vector>& x,
                std::vector<Vector>& first) const {
    const std::string attn = layer + ".attn";
    const bool is_first = layer == "model.layers.0";
    const Vector k_k = get(attn + ".k_k"), k_a = get(attn + ".k_a"), r_k = get(attn + ".r_k");
    const auto self = [](double v) { return v; };
    const auto squashed = [](const Vector& v) {
      return map(v, [](double e, std::size_t) { return sigmoid(e); });
    };
    Vector previous(kWidth), state(kWidth * kHead);  // [head, key, value]
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Vector h = norm(x[t], layer + ".attn_norm");
      const auto mixed = [&](const char* name) { return shifted(h, previous, attn + name); };
      const Vector r = product(attn + ".r_proj", mixed(".x_r"));
      Vector k = product(attn + ".k_proj", mixed(".x_k"));
      Vector v = product(attn + ".v_proj", mixed(".x_v"));
      const Vector log_decay = squashed(
          low_rank(attn + ".w_lora", mixed(".x_w"), [](double e) { return std::tanh(e); }));
      const Vector a = squashed(low_rank(attn + ".a_lora", mixed(".x_a"), self));
      const Vector gate = low_rank(attn + ".g_lora", mixed(".x_g"), sigmoid);
      if (is_first) {
        first[t] = v;
      } else {
        const Vector share = squashed(low_rank(attn + ".v_lora", mixed(".x_v"), self));
        v = map(v, [&](double e, std::size_t i) { return e + (first[t][i] - e) * share[i]; });
      }
      Vector unit = map(k, [&](double e, std::size_t i) { return e * k_k[i]; });
      for (std::size_t n = 0; n < kWidth; n += kHead) {
        double squares = 0;
        for (std::size_t i = n; i < n + kHead; ++i) squares += unit[i] * unit[i];
        for (std::size_t i = n; i < n + kHead; ++i) unit[i] /= std::sqrt(squares);
      }
      k = map(k, [&](double e, std::size_t i) { return e * (1 + (a[i] - 1) * k_a[i]); });
      Vector y(kWidth);
      for (std::size_t n = 0; n < kWidth; n += kHead)
        for (std::size_t c = 0; c < kHead; ++c) {
          double removed = 0;
          for (std::size_t i = 0; i < kHead; ++i)
            removed += state[(n + i) * kHead + c] * unit[n + i];
          for (std::size_t i = 0; i < kHead; ++i) {
            double& s = state[(n + i) * kHead + c];
            s = s * std::exp(-std::exp(-0.5) * log_decay[n + i]) -
                a[n + i] * unit[n + i] * removed + k[n + i] * v[n + c];
            y[n + c] += s * r[n + i];
          }
        }
      y = gained(normed(y, kHead, kHead * kEps), attn + ".g_norm");
      for (std::size_t n = 0; n < kWidth; n += kHead) {
        double bonus = 0;
        for (std::size_t i = n; i < n + kHead; ++i) bonus += r[i] * k[i] * r_k[i];
        for (std::size_t i = n; i < n + kHead; ++i) y[i] = (y[i] + bonus * v[i]) * gate[i];
      }
      const Vector out = product(attn + ".o_proj", y);
      x[t] = map(x[t], [&](double e, std::size_t i) { return e + out[i]; });
      previous = h;
    }
  }

  void channel_mix(const std::string& layer, std::vector<Vector>& x) const {
    Vector previous(kWidth);
    for (Vector& token : x) {
      const Vector h = norm(token, layer + ".ffn_norm");
      const Vector key = map(product(layer + ".ffn.key", shifted(h, previous, layer + ".ffn.x_k")),
                             [](double e, std::size_t) { return e > 0 ? e * e : 0; });
      const Vector out = product(layer + ".ffn.value", key);
      token = map(token, [&](double e, std::size_t i) { return e + out[i]; });
      previous = h;
    }
  }

  const Checkpoint& checkpoint_;
};

TEST(Rwkv7Example, LogitsEqualThePapersEquations) {
  const Goose checkpoint;
  EXPECT_LE(error_of(checkpoint, kConfig, [&](auto ids) { return Reference(checkpoint).run(ids); }),
            2e-5);
}

TEST(Rwkv7Example, OtherActivationsAreRefused) {
  const TempDir folder;
  std::string config = kConfig;
  config.replace(config.find("sqrelu"), 6, "gelu");
  Goose().write(folder.path(), config);
  EXPECT_ERROR_SAYS(
      open_model(folder.path()), ExitCode::checkpoint,
      "'hidden_act': got \"gelu\"; it must be \"sqrelu\": feed-forwards have no other");
}

}  // namespace
}  // namespace lamina::testing
