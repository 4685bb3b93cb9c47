// Engram's equations, compared with MaxText: the output, intermediate values and gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "autodiff/vjp.h"
#include "core/json.h"
#include "decoder/engram/engram.h"
#include "decoder/engram/engram_block.h"
#include "decoder/engram/ngram_tables.h"
#include "io/safetensors.h"
#include "ops/op_code.h"
#include "ops/registry.h"
#include "ops/tensor.h"
#include "support/goldens.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using decoder::Input;
using decoder::Output;

// The block alone, as in a training graph.
class ModuleBuild final : public decoder::HostBuild {
 public:
  ModuleBuild(Graph& graph, Type tokens, std::int64_t num_ids)
      : graph_(graph), tokens_(tokens), num_ids_(num_ids) {}

  Tensor param(const registry::ParamDesc& desc) override {
    names.push_back(desc.name);
    return graph_.add_input(desc.name, {DType::f32, desc.shape, {}});
  }
  Tensor input(Input role) override {
    return role == Input::tokens
               ? graph_.add_input("tokens", tokens_)
               : graph_.add_input("compressed_tokens", {DType::i32, {num_ids_}, {}});
  }
  Tensor remember(Tensor result, const registry::StateDesc&) override { return result; }
  Tensor name(Tensor value, const std::string&) override { return value; }

  std::vector<std::string> names;  // of parameters, in order

 private:
  Graph& graph_;
  Type tokens_;
  std::int64_t num_ids_;
};

struct Theirs {
  const char* name;
  bool is_transposed = false;  // [in, out..], ours [out, in]
};
const std::map<std::string, Theirs> kNames = {
    {"engram.table.weight", {"multi_head_embedding/embedding/embedding"}},
    {"engram.key.weight", {"key_proj/kernel", true}},
    {"engram.key.bias", {"key_proj/bias"}},
    {"engram.value.weight", {"value_proj/kernel", true}},
    {"engram.value.bias", {"value_proj/bias"}},
    {"engram.key_norm.weight", {"k_norm/scale"}},
    {"engram.query_norm.weight", {"q_norm/scale"}},
    {"engram.conv_norm.weight", {"short_conv/norm/scale"}},
    {"engram.conv.weight", {"short_conv/conv/kernel", true}},
};

Doubles floats(const io::SafetensorsFile& file, const std::string& name) {
  auto bytes = file.tensor(name).bytes;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return Doubles(values.begin(), values.end());
}

Doubles ids(const io::SafetensorsFile& file, const std::string& name) {
  auto bytes = file.tensor(name).bytes;
  std::vector<std::int32_t> values(bytes.size() / sizeof(std::int32_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return Doubles(values.begin(), values.end());
}

std::vector<std::int64_t> integers(const JsonValue& list) {
  std::vector<std::int64_t> out;
  for (JsonValue element : list.elements()) out.push_back(element.as_int64());
  return out;
}

// [rows, columns] to [columns, rows].
Doubles transposed(const Doubles& x, std::size_t columns) {
  Doubles out;
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t r = 0; r < x.size() / columns; ++r) out.push_back(x[r * columns + c]);
  return out;
}

class EngramModule : public ::testing::TestWithParam<fs::path> {
 protected:
  EngramModule()
      : weights((GetParam() / "model.safetensors").string()),
        golden((GetParam() / "golden.safetensors").string()) {
    JsonDocument config = JsonDocument::read((GetParam() / "config.json").string());
    JsonDocument facts = JsonDocument::read((GetParam() / "golden.json").string());
    vocabulary = facts.root().at("compressed_vocab").as_int64();
    engram.pad = facts.root().at("compressed_pad_id").as_int64();
    engram.max_ngram = config.root().at("engram_max_ngram_size").as_int64();
    engram.head_dim = config.root().at("engram_head_dim").as_int64();
    engram.kernel_size = config.root().at("engram_kernel_size").as_int64();
    engram.norm_eps = config.root().at("normalization_layer_epsilon").as_double();
    layer.layer = facts.root().at("layer").as_int64();
    layer.sizes = integers(facts.root().at("sizes"));
    layer.multipliers = decoder::ngram_multipliers(
        vocabulary, config.root().at("engram_seed").as_int64(), layer.layer, engram.max_ngram);
  }

  // The values of lamina's parameter; `of` is the prefix in `theirs`: "", "grad.".
  Doubles ours(const io::SafetensorsFile& theirs, const std::string& of, const std::string& name) {
    const Theirs& from = kNames.at(name);
    Doubles values = floats(theirs, of + from.name);
    if (!from.is_transposed) return values;
    const Shape& shape = weights.tensor(from.name).shape;
    return transposed(values, static_cast<std::size_t>(shape.num_elements() / shape[0]));
  }

  io::SafetensorsFile weights, golden;
  decoder::Engram engram;
  decoder::EngramLayer layer;
  std::int64_t vocabulary = 0;
};

double largest(const Doubles& x) {
  double out = 0;
  for (double v : x) out = std::max(out, std::abs(v));
  return out;
}

void expect_near(const Array& got, const Doubles& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.type.num_elements(), std::ssize(want)) << what;
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, std::abs(get(got, static_cast<std::int64_t>(i)) - want[i]));
  EXPECT_LE(worst, tolerance * largest(want)) << what;
}

TEST_P(EngramModule, GivesTheReferencesValuesAndGradients) {
  Graph g;
  Shape shape = golden.tensor("x").shape;
  Tensor x = g.add_input("x", {DType::f32, shape, {}});
  Tensor cotangent = g.add_input("cotangent", {DType::f32, shape, {}});
  ModuleBuild build(g, {DType::i32, {shape[0], shape[1]}, {}}, vocabulary);
  decoder::EngramValues values = decoder::engram_values(build, engram, layer, x);
  Tensor output = values.gated + values.convolved;
  std::vector<Tensor> wanted{x};
  for (const GraphInput& input : g.inputs())
    if (kNames.contains(input.name)) wanted.push_back(g.tensor(input.value));
  std::vector<Tensor> gradients = autodiff::vjp(g, std::span(&output, 1), std::span(&cotangent, 1),
                                                wanted, autodiff::save_everything());
  g.add_output("output", output);
  g.add_output("gated", values.gated);
  g.add_output("convolved", values.convolved);
  g.add_output("rows", values.rows);
  for (Tensor gradient : gradients) g.add_output("gradient", gradient);

  std::vector<Array> inputs;
  for (const GraphInput& input : g.inputs()) {
    const Type& type = g.type(input.value);
    if (input.name == "tokens") {
      inputs.push_back(array(type, ids(golden, "compressed_ids")));
    } else if (input.name == "compressed_tokens") {
      Doubles same;
      for (std::int64_t i = 0; i < vocabulary; ++i) same.push_back(static_cast<double>(i));
      inputs.push_back(array(type, same));
    } else {
      bool is_activation = input.name == "x" || input.name == "cotangent";
      inputs.push_back(
          array(type, is_activation ? floats(golden, input.name) : ours(weights, "", input.name)));
    }
  }
  std::vector<Array> got = run(g, inputs);
  expect_near(got[0], floats(golden, "output"), 2e-5, "output");
  expect_near(got[1], floats(golden, "gated_value"), 2e-5, "gated_value");
  expect_near(got[2], floats(golden, "conv_branch"), 2e-5, "conv_branch");
  expect_near(got[3], floats(golden, "embeddings"), 0, "embeddings");
  expect_near(got[4], floats(golden, "grad_x"), 1e-4, "x");
  for (std::size_t i = 0; i < build.names.size(); ++i) {
    const std::string& name = build.names[i];
    const Theirs& theirs = kNames.at(name);
    const Array& gradient = got[5 + i];
    if (golden.find(std::string("grad.") + theirs.name)) {
      expect_near(gradient, ours(golden, "grad.", name), 1e-4, name);
      continue;
    }
    // The golden has its norm and some elements.
    Doubles flat = to_doubles(gradient);
    const Shape& stored = weights.tensor(theirs.name).shape;
    if (theirs.is_transposed) flat = transposed(flat, static_cast<std::size_t>(stored[0]));
    Doubles sample = floats(golden, std::string("grad_sample.") + theirs.name);
    double square = 0;
    for (double v : flat) square += v * v;
    for (std::size_t k = 0; k < sample.size(); ++k)
      EXPECT_NEAR(flat[k * 2654435761u % flat.size()], sample[k], 1e-4 * largest(sample))
          << name << " " << k;
    double norm = floats(golden, std::string("grad_norm.") + theirs.name)[0];
    EXPECT_NEAR(std::sqrt(square), norm, 1e-4 * norm) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EngramModule,
    ::testing::ValuesIn(golden_folders("maxtext", "golden.json", "engram_module")),
    [](const auto& test) { return test_name(test.param.filename().string()); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EngramModule);

// Gates of one stream whose key and value are equal for every token, in double precision.
class Gates {
 public:
  static constexpr double kEps = 1e-6;
  Doubles key, value;  // [D]: the biases, before the norm of the key

  struct Gradients {
    Doubles x, key;
  };
  // Gradients of sum(cotangent * gate * value) for x and cotangent [T, D].
  Gradients gradients(const Doubles& x, const Doubles& cotangent) const {
    const std::size_t width = key.size();
    const Doubles k = normed(key);
    Gradients out{.x = {}, .key = Doubles(width)};
    for (std::size_t t = 0; t < x.size() / width; ++t) {
      const auto begin = static_cast<std::ptrdiff_t>(t * width);
      const Doubles row(x.begin() + begin, x.begin() + begin + std::ssize(key));
      const Doubles q = normed(row);
      double score = 0, d_gate = 0;
      for (std::size_t d = 0; d < width; ++d) {
        score += q[d] * k[d] / std::sqrt(static_cast<double>(width));
        d_gate += cotangent[t * width + d] * value[d];
      }
      const double size = std::abs(score);
      const double sign = score > 0 ? 1 : score < 0 ? -1 : 0;
      const double gate = 1 / (1 + std::exp(-sign * std::sqrt(std::max(size, 1e-6))));
      const double d_score =
          size < 1e-6 ? 0 : d_gate * gate * (1 - gate) * sign * sign / (2 * std::sqrt(size));
      const double scale = d_score / std::sqrt(static_cast<double>(width));
      const Doubles dx = norm_gradient(row, k, scale), dk = norm_gradient(key, q, scale);
      out.x.insert(out.x.end(), dx.begin(), dx.end());
      for (std::size_t d = 0; d < width; ++d) out.key[d] += dk[d];
    }
    return out;
  }

 private:
  static double rms_inverse(const Doubles& x) {
    double square = 0;
    for (double v : x) square += v * v;
    return 1 / std::sqrt(square / static_cast<double>(x.size()) + kEps);
  }
  static Doubles normed(Doubles x) {
    const double r = rms_inverse(x);
    for (double& v : x) v *= r;
    return x;
  }
  // Gradient of normed(x) * scale for the cotangent c.
  static Doubles norm_gradient(const Doubles& x, const Doubles& c, double scale) {
    const double r = rms_inverse(x);
    double dot = 0;
    for (std::size_t d = 0; d < x.size(); ++d) dot += scale * c[d] * x[d];
    Doubles out;
    for (std::size_t d = 0; d < x.size(); ++d)
      out.push_back(r * scale * c[d] - r * r * r * dot * x[d] / static_cast<double>(x.size()));
    return out;
  }
};

// The gate is flat around a score of zero and steepest just outside. Goldens in f32 have the same
// rounding of such scores as lamina, so this test compares with double precision.
TEST(EngramGate, GradientsOfScoresNearZeroEqualDoublePrecision) {
  constexpr std::int64_t kWidth = 4;
  const decoder::Engram engram{
      .pad = 0, .max_ngram = 2, .head_dim = 2, .kernel_size = 2, .norm_eps = Gates::kEps};
  const decoder::EngramLayer layer{.layer = 0, .multipliers = {3, 5}, .sizes = {3}};
  // The key has only the first two dims, so the first element of a row determines its score: zero,
  // below the bound of 1e-6 with both signs, slightly and far above it.
  Gates gates{.key = {1, 0.5, 0, 0}, .value = {0.5, -1, 2, 1}};
  Doubles x, cotangent;
  for (double small : {0.0, 4e-7, -4e-7, 3e-5, -3e-5, 1e-2, -0.4, 2.0}) {
    x.insert(x.end(), {small, 0, 1, -0.5});
    cotangent.insert(cotangent.end(), {1, 0.25, -0.5, 1});
  }
  const std::int64_t num_tokens = std::ssize(x) / kWidth;

  Graph g;
  const Type streams{DType::f32, {1, num_tokens, 1, kWidth}, {}};
  Tensor x_in = g.add_input("x", streams);
  Tensor ct_in = g.add_input("cotangent", streams);
  ModuleBuild build(g, {DType::i32, {1, num_tokens}, {}}, 3);
  Tensor gated = decoder::engram_values(build, engram, layer, x_in).gated;
  std::vector<Tensor> wanted{x_in};
  for (const GraphInput& input : g.inputs())
    if (input.name == "engram.key.bias") wanted.push_back(g.tensor(input.value));
  for (Tensor gradient : autodiff::vjp(g, std::span(&gated, 1), std::span(&ct_in, 1), wanted,
                                       autodiff::save_everything()))
    g.add_output("gradient", gradient);
  std::vector<Array> inputs;
  for (const GraphInput& input : g.inputs()) {
    Array values = zeros(g.type(input.value));
    const auto fill = [&](const Doubles& from) {
      for (std::int64_t i = 0; i < values.type.num_elements(); ++i)
        set(values, i, from[static_cast<std::size_t>(i) % from.size()]);
    };
    if (input.name == "x") fill(x);
    if (input.name == "cotangent") fill(cotangent);
    if (input.name == "engram.key.bias") fill(gates.key);
    if (input.name == "engram.value.bias") fill(gates.value);
    if (input.name.ends_with("norm.weight")) fill({1});
    inputs.push_back(std::move(values));
  }
  const std::vector<Array> got = run(g, inputs);

  const Gates::Gradients want = gates.gradients(x, cotangent);
  for (std::size_t i = 0; i < want.x.size(); ++i) {
    const double value = get(got[0], static_cast<std::int64_t>(i));
    const std::size_t token = i / static_cast<std::size_t>(kWidth);
    EXPECT_NEAR(value, want.x[i], 1e-5 * std::abs(want.x[i]) + 1e-9) << "token " << token;
    if (token < 3) {
      EXPECT_EQ(value, 0) << "token " << token;
    }
  }
  expect_near(got[1], want.key, 1e-5, "key");
}

TEST(UncompressedTokens, NeedNoMemoryForEachIdOfAHugeVocabulary) {
  const decoder::CompressedTokens few = decoder::uncompressed_tokens(300),
                                  many = decoder::uncompressed_tokens((1LL << 31) - 1);
  EXPECT_EQ(few.ids.size(), 300u);
  EXPECT_EQ(many.count, (1LL << 31) - 1);
  EXPECT_LE(many.ids.size(), 1u << 20);
}

}  // namespace
}  // namespace lamina::testing
