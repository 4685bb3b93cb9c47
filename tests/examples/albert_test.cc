// The example plugin reads a small checkpoint of an ALBERT-like decoder: logits equal plain loops
// that run the one layer several times. Lan et al. 2020, section 3.1.
#include <gtest/gtest.h>

#include "examples/reference.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kVocab = 37, kTable = 8, kWidth = 24, kHeads = 3, kInner = 40, kLayers = 4;
constexpr double kEps = 1e-6;
const std::string kLayer = "albert.encoder.albert_layer_groups.0.albert_layers.0";

struct Albert : Checkpoint {
  void add_linear(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {out, in}, -0.4, 0.4);
    add(name + ".bias", {out}, -0.2, 0.2);
  }
  void add_norm(const std::string& name, std::int64_t width) {
    add(name + ".weight", {width}, 0.5, 1.5);
    add(name + ".bias", {width}, -0.2, 0.2);
  }

  Albert() {
    add("albert.embeddings.word_embeddings.weight", {kVocab, kTable}, -1, 1);
    add("albert.embeddings.position_embeddings.weight", {50, kTable}, -1, 1);
    add_norm("albert.embeddings.LayerNorm", kTable);
    add_linear("albert.encoder.embedding_hidden_mapping_in", kWidth, kTable);
    for (const char* name : {".query", ".key", ".value", ".dense"})
      add_linear(kLayer + ".attention" + name, kWidth, kWidth);
    add_norm(kLayer + ".attention.LayerNorm", kWidth);
    add_linear(kLayer + ".ffn", kInner, kWidth);
    add_linear(kLayer + ".ffn_output", kWidth, kInner);
    add_norm(kLayer + ".full_layer_layer_norm", kWidth);
    add_linear("predictions.dense", kTable, kWidth);
    add_norm("predictions.LayerNorm", kTable);
  }
};

const std::string kConfig = R"({"model_type": "albert_decoder", "vocab_size": 37, "hidden_size": 8,
  "inner_size": 24, "num_hidden_layers": 4, "num_attention_heads": 3, "intermediate_size": 40,
  "max_position_embeddings": 50, "layer_norm_eps": 1e-6})";

// The equations for one row.
class Reference {
 public:
  explicit Reference(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // Returns all logits, token by token.
  Vector run(std::span<const std::int32_t> ids) const {
    std::vector<Vector> x;
    for (std::size_t t = 0; t < ids.size(); ++t) {
      const auto row = [&](const char* table, std::int64_t i) {
        return checkpoint_.row("albert.embeddings." + std::string(table), i, kTable);
      };
      const Vector e = sum(row("word_embeddings.weight", ids[t]),
                           row("position_embeddings.weight", static_cast<std::int64_t>(t)));
      x.push_back(checkpoint_.product("albert.encoder.embedding_hidden_mapping_in",
                                      norm(e, "albert.embeddings.LayerNorm")));
    }
    for (std::int64_t i = 0; i < kLayers; ++i) layer(x);
    Vector logits;
    const Vector table = checkpoint_.get("albert.embeddings.word_embeddings.weight");
    for (const Vector& token : x) {
      const Vector e =
          norm(map(checkpoint_.product("predictions.dense", token), gelu), "predictions.LayerNorm");
      for (std::size_t v = 0; v < kVocab; ++v) {
        double logit = 0;
        for (std::size_t i = 0; i < kTable; ++i) logit += table[v * kTable + i] * e[i];
        logits.push_back(logit);
      }
    }
    return logits;
  }

 private:
  static double gelu(double v, std::size_t) {
    return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
  }
  static Vector sum(const Vector& a, const Vector& b) {
    return map(a, [&](double v, std::size_t i) { return v + b[i]; });
  }
  Vector norm(const Vector& x, const std::string& name) const {
    const Vector w = checkpoint_.get(name + ".weight"), b = checkpoint_.get(name + ".bias");
    double mean = 0, variance = 0;
    for (double v : x) mean += v / double(x.size());
    for (double v : x) variance += (v - mean) * (v - mean) / double(x.size());
    return map(x, [&](double v, std::size_t i) {
      return (v - mean) / std::sqrt(variance + kEps) * w[i] + b[i];
    });
  }

  void layer(std::vector<Vector>& x) const {
    const auto project = [&](const char* name) {
      std::vector<Vector> out;
      for (const Vector& token : x)
        out.push_back(checkpoint_.product(kLayer + ".attention" + name, token));
      return out;
    };
    const std::vector<Vector> q = project(".query"), k = project(".key"), v = project(".value");
    constexpr std::size_t width = kWidth / kHeads;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Vector out(kWidth);
      for (std::size_t first = 0; first < kWidth; first += width) {
        Vector p(t + 1);
        double total = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double logit = 0;
          for (std::size_t i = first; i < first + width; ++i) logit += q[t][i] * k[s][i];
          total += p[s] = std::exp(logit / std::sqrt(double(width)));
        }
        for (std::size_t s = 0; s <= t; ++s)
          for (std::size_t i = first; i < first + width; ++i) out[i] += p[s] / total * v[s][i];
      }
      x[t] = norm(sum(x[t], checkpoint_.product(kLayer + ".attention.dense", out)),
                  kLayer + ".attention.LayerNorm");
    }
    for (Vector& token : x) {
      const Vector inner = map(checkpoint_.product(kLayer + ".ffn", token), gelu);
      token = norm(sum(token, checkpoint_.product(kLayer + ".ffn_output", inner)),
                   kLayer + ".full_layer_layer_norm");
    }
  }

  const Checkpoint& checkpoint_;
};

TEST(AlbertExample, LogitsEqualOneLayerRunSeveralTimes) {
  const Albert checkpoint;
  EXPECT_LE(error_of(checkpoint, kConfig, [&](auto ids) { return Reference(checkpoint).run(ids); }),
            2e-5);
}

}  // namespace
}  // namespace lamina::testing
