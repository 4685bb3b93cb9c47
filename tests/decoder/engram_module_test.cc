// Engram's equations against MaxText's: what is added to the streams, what lies between, gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "autodiff/vjp.h"
#include "core/json.h"
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

// The block as a training graph has it, alone.
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
  std::vector<Tensor> mix(OpCode op, std::vector<Tensor> inputs, const registry::NamedAttrs& attrs,
                          const registry::StateDesc&) override {
    return graph_.add_node(ops::get(op), inputs, attrs);
  }
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

  // A parameter's values, ours; `of` names them among `theirs`: "", "grad.".
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

}  // namespace
}  // namespace lamina::testing
