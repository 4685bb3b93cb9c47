// Whole models with packed weights: the logits of the same models with plain weights that have the
// values of the layouts' definitions.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "decode/session.h"
#include "inspect/verify/case.h"
#include "inspect/verify/verify.h"
#include "model/load.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/packed_checkpoint.h"

namespace lamina::testing {
namespace {

// Writes the tensors of one module.
using Layout = std::function<std::vector<FileBytes>(const std::string&, const IntegerWeight&)>;

struct PackedKind {
  std::string name;
  int bits;
  std::int64_t group;
  bool zeros;
  std::string quantization_config;
  Layout layout;
};

std::vector<PackedKind> packed_kinds() {
  return {
      {"Words4", 4, 32, false, compressed_tensors_config("pack-quantized", 4, "group", 32, true),
       [](auto& m, auto& w) { return as_words(m, w, DType::bf16, false); }},
      {"Words4ZeroPoints", 4, 64, true,
       compressed_tensors_config("pack-quantized", 4, "group", 64, false),
       [](auto& m, auto& w) { return as_words(m, w, DType::bf16, true); }},
      {"Words8", 8, 64, false, compressed_tensors_config("pack-quantized", 8, "group", 64, true),
       [](auto& m, auto& w) { return as_words(m, w, DType::bf16, false); }},
      {"Bytes", 8, 32, false, compressed_tensors_config("int-quantized", 8, "group", 32, true),
       [](auto& m, auto& w) { return as_bytes(m, w, DType::bf16, false); }},
      {"BytesWithZeroPointsOfZero", 8, 64, false,
       compressed_tensors_config("int-quantized", 8, "group", 64, false),
       [](auto& m, auto& w) { return as_bytes(m, w, DType::bf16, true); }},
      {"Gptq", 4, 32, true, gptq_config(4, 32, false, 1),
       [](auto& m, auto& w) { return as_gptq(m, w, DType::f16, 1); }},
      {"GptqSymmetric", 4, 64, false, gptq_config(4, 64, true, 2),
       [](auto& m, auto& w) { return as_gptq(m, w, DType::f16, 2); }},
      {"Awq", 4, 64, true, awq_config(64),
       [](auto& m, auto& w) { return as_awq(m, w, DType::f16); }},
  };
}

// Two directories with the same model: packed, and plain.
class ModelPair {
 public:
  ModelPair(const PackedKind& kind, std::string config) : kind_(kind), config_(std::move(config)) {}

  void matrix(const std::string& module, std::int64_t rows, std::int64_t columns) {
    const IntegerWeight w =
        random_weight(rows, columns, kind_.bits, kind_.group, kind_.zeros, ++seed_);
    for (FileBytes& tensor : kind_.layout(module, w)) packed_.push_back(std::move(tensor));
    plain_.push_back(float_bytes(module + ".weight", DType::f32, {rows, columns}, w.values()));
  }
  void plain(const std::string& name, const Shape& shape) {
    std::mt19937 random(++seed_);
    std::vector<float> values;
    for (std::int64_t i = 0; i < shape.num_elements(); ++i)
      values.push_back(static_cast<float>(random() % 1000) / 2000 + 0.25f);
    packed_.push_back(float_bytes(name, DType::f32, shape, values));
    plain_.push_back(packed_.back());
  }
  void write() const {
    std::filesystem::create_directories(packed_path());
    std::filesystem::create_directories(plain_path());
    write_checkpoint(packed_path(), packed_,
                     config_ + R"(, "quantization_config": )" + kind_.quantization_config + "}");
    write_checkpoint(plain_path(), plain_, config_ + "}");
  }
  std::string packed_path() const { return dir_ / "packed"; }
  std::string plain_path() const { return dir_ / "plain"; }

 private:
  const PackedKind& kind_;
  std::string config_;
  unsigned seed_ = 0;
  TempDir dir_;
  std::vector<FileBytes> packed_, plain_;
};

void add_attention(ModelPair& model, const std::string& layer) {
  model.matrix(layer + "self_attn.q_proj", 64, 64);
  model.matrix(layer + "self_attn.k_proj", 32, 64);
  model.matrix(layer + "self_attn.v_proj", 32, 64);
  model.matrix(layer + "self_attn.o_proj", 64, 64);
  model.plain(layer + "input_layernorm.weight", {64});
  model.plain(layer + "post_attention_layernorm.weight", {64});
}

void add_ends(ModelPair& model, const std::string& outer = "") {
  model.plain(outer + "model.embed_tokens.weight", {48, 64});
  model.plain(outer + "model.norm.weight", {64});
  model.plain(outer + "lm_head.weight", {48, 64});
}

constexpr const char* kSizes =
    R"("hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
       "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 48,
       "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": false)";

// Returns a config.json without the closing brace; `more` are keys of the family.
std::string config_of(const std::string& type, const std::string& architecture,
                      const std::string& more = "") {
  return fmt::format(R"({{"model_type": "{}", "architectures": ["{}"], {}{})", type, architecture,
                     more, kSizes);
}

// `outer`: "language_model." for the names of a multimodal model.
void write_llama(ModelPair& model, const std::string& outer = "") {
  for (const char* number : {"0.", "1."}) {
    const std::string layer = outer + "model.layers." + number;
    add_attention(model, layer);
    model.matrix(layer + "mlp.gate_proj", 128, 64);
    model.matrix(layer + "mlp.up_proj", 128, 64);
    model.matrix(layer + "mlp.down_proj", 64, 128);
  }
  add_ends(model, outer);
  model.write();
}

void write_mixtral(ModelPair& model) {
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    add_attention(model, layer);
    model.plain(layer + "block_sparse_moe.gate.weight", {4, 64});
    for (int e = 0; e < 4; ++e) {
      const std::string expert = fmt::format("{}block_sparse_moe.experts.{}.", layer, e);
      model.matrix(expert + "w1", 128, 64);
      model.matrix(expert + "w3", 128, 64);
      model.matrix(expert + "w2", 64, 128);
    }
  }
  add_ends(model);
  model.write();
}

// Matrices of several parts in one published tensor.
void write_phi3(ModelPair& model) {
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    model.matrix(layer + "self_attn.qkv_proj", 128, 64);
    model.matrix(layer + "self_attn.o_proj", 64, 64);
    model.matrix(layer + "mlp.gate_up_proj", 256, 64);
    model.matrix(layer + "mlp.down_proj", 64, 128);
    model.plain(layer + "input_layernorm.weight", {64});
    model.plain(layer + "post_attention_layernorm.weight", {64});
  }
  add_ends(model);
  model.write();
}

std::vector<float> logits_of_model(const std::string& path, bool packed,
                                   int* num_stored = nullptr) {
  const model::Loaded m =
      model::load(path, built_plugins(), DType::f32, cpu::cpu_backend(), {.packed = packed});
  if (num_stored)
    *num_stored = static_cast<int>(std::ranges::count_if(
        m.model().parameters().all(), [](const auto& p) { return p.storage != nullptr; }));
  decode::Session session(m.model(), m.weights.pointers(),
                          {.capacity = 16, .call_tokens = 12, .dtype = DType::f32},
                          cpu::cpu_backend());
  const std::vector<std::int32_t> ids = {3, 1, 41, 7, 26, 5, 35, 9, 12, 32};
  const auto logits = session.append(ids);
  return {logits.begin(), logits.end()};
}

void expect_same_model(const ModelPair& model, int num_matrices) {
  const std::vector<float> want = logits_of_model(model.plain_path(), false);
  EXPECT_TRUE(same_bits(logits_of_model(model.packed_path(), false), want));
  int num_stored = 0;
  EXPECT_TRUE(same_bits(logits_of_model(model.packed_path(), true, &num_stored), want));
  EXPECT_EQ(num_stored, num_matrices);
}

class PackedModels : public ::testing::TestWithParam<PackedKind> {};

TEST_P(PackedModels, SingleMatricesHaveTheBitsOfPlainOnes) {
  ModelPair model(GetParam(), config_of("llama", "LlamaForCausalLM"));
  write_llama(model);
  expect_same_model(model, 14);
}

TEST_P(PackedModels, StackedExpertsHaveTheBitsOfPlainOnes) {
  ModelPair model(GetParam(), config_of("mixtral", "MixtralForCausalLM",
                                        R"("num_local_experts": 4, "num_experts_per_tok": 2, )"));
  write_mixtral(model);
  expect_same_model(model, 14);
}

TEST_P(PackedModels, MergedMatricesHaveTheBitsOfPlainOnes) {
  ModelPair model(GetParam(), config_of("phi3", "Phi3ForCausalLM",
                                        R"("rope_theta": 10000.0, "pad_token_id": 0, )"));
  write_phi3(model);
  expect_same_model(model, 14);
}

INSTANTIATE_TEST_SUITE_P(All, PackedModels, ::testing::ValuesIn(packed_kinds()),
                         [](const auto& test) { return test.param.name; });

class QuantisedGolden : public ::testing::TestWithParam<std::filesystem::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(QuantisedGolden);

// Weights are equal. Logits of a reference that computed in bfloat16 agree to its rounding.
TEST_P(QuantisedGolden, AgreesWithTheReference) {
  const inspect::GoldenCase golden(GetParam().string());
  const std::vector<float> logits = golden.floats("logits");
  const bool in_bfloat16 =
      std::ranges::all_of(logits, [](float v) { return to_float(to_bfloat16(v)) == v; });
  const inspect::VerifyReport report =
      inspect::verify_case(GetParam().string(), DType::f32, built_plugins(), cpu::cpu_backend());
  int weights = 0;
  for (const inspect::VerifyRow& row : report.rows) {
    if (in_bfloat16 && row.quantity == "greedy_ids") continue;
    const double tolerance =
        in_bfloat16 && row.quantity == "logits" ? 0.02 * inspect::max_abs(logits) : row.tolerance;
    EXPECT_LE(row.error, tolerance) << row.quantity;
    weights += row.quantity.starts_with("dequant.");
  }
  EXPECT_EQ(weights, 2);
  EXPECT_TRUE(report.skipped.empty());
}

INSTANTIATE_TEST_SUITE_P(All, QuantisedGolden,
                         ::testing::ValuesIn(golden_folders("quantised", "model.safetensors")),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });

// Opens a packed Llama whose quantization_config is another one.
void expect_contradiction(const PackedKind& kind, const std::string& config,
                          const std::string& text) {
  PackedKind changed = kind;
  changed.quantization_config = config;
  ModelPair model(changed, config_of("llama", "LlamaForCausalLM"));
  write_llama(model);
  EXPECT_ERROR_SAYS(logits_of_model(model.packed_path(), false), ExitCode::checkpoint, text);
}

TEST(PackedContradictions, OfBitsTypesAndFormatsAreRefused) {
  const PackedKind words = packed_kinds()[0];
  expect_contradiction(words, compressed_tensors_config("pack-quantized", 8, "group", 32, true),
                       "weight 'model.layers.0.mlp.down_proj.weight' has integers of 4 bits; "
                       "expected integers of 8 bits");
  expect_contradiction(
      words, compressed_tensors_config("pack-quantized", 4, "group", 32, true, "", "float"),
      "has integers of 4 bits; expected floats of 4 bits");
  expect_contradiction(words, compressed_tensors_config("int-quantized", 4, "group", 32, true),
                       "has the form pack-quantized; expected int-quantized");
  for (const char* groups : {"{}", R"({"group_0": {"targets": ["Linear"], "weights": null}})"})
    expect_contradiction(
        words,
        fmt::format(R"({{"quant_method": "compressed-tensors", "config_groups": {}}})", groups),
        "weight 'model.layers.0.mlp.down_proj.weight' is quantised; expected a plain weight");
}

TEST(PackedContradictions, OfGroupsAndZeroPointsAreRefused) {
  const PackedKind words = packed_kinds()[0];
  expect_contradiction(words, compressed_tensors_config("pack-quantized", 4, "group", 64, true),
                       "has groups of 32 values; expected 64");
  expect_contradiction(words, compressed_tensors_config("pack-quantized", 4, "channel", 0, true),
                       "has groups of 32 values; expected");
  expect_contradiction(words, compressed_tensors_config("pack-quantized", 4, "group", 32, false),
                       "has no zero points; expected zero points, because it is not symmetric");
  expect_contradiction(packed_kinds()[1],
                       compressed_tensors_config("pack-quantized", 4, "group", 64, true),
                       "has zero points; expected none, because it is symmetric");
  expect_contradiction(
      words,
      compressed_tensors_config("pack-quantized", 4, "group", 32, true, R"(, "actorder": "group")"),
      "has no tensor 'weight_g_idx'; expected the groups of its columns");
}

TEST(PackedContradictions, OfStrategiesOfIntegersAreRefused) {
  PackedKind rows = packed_kinds()[0];
  rows.layout = [](const std::string& m, const IntegerWeight& w) {
    return as_words(m, random_weight(w.rows, w.columns, 4, w.columns, false, 1), DType::bf16,
                    false);
  };
  rows.quantization_config = compressed_tensors_config("pack-quantized", 4, "channel", 0, true);
  ModelPair model(rows, config_of("llama", "LlamaForCausalLM"));
  write_llama(model);
  EXPECT_NO_THROW(logits_of_model(model.packed_path(), false));
  for (const auto& [strategy, more] : {std::pair{"tensor", ""},
                                       {"group", ""},
                                       {"tensor_group", ""},
                                       {"block", R"(, "block_structure": [64, 64])"}})
    expect_contradiction(
        rows, compressed_tensors_config("pack-quantized", 4, strategy, 0, true, more),
        fmt::format(" rows; expected the scales of the strategy \"{}\"", strategy));
  PackedKind whole = packed_kinds()[3];
  whole.layout = [](const std::string& m, const IntegerWeight& w) {
    std::vector<FileBytes> out = as_bytes(m, w, DType::bf16, false);
    out[1] = float_bytes(m + ".weight_scale", DType::bf16, {1}, {0.01f});
    return out;
  };
  expect_contradiction(whole, compressed_tensors_config("int-quantized", 8, "channel", 0, true),
                       "has 1 scales for");
}

// Values in f8 with this number of scales for each row; with one scale for the tensor if it is 0.
PackedKind rows_of_f8(std::int64_t groups = 1) {
  return {"F8",
          8,
          64,
          false,
          compressed_tensors_config("float-quantized", 8, "channel", 0, true, "", "float"),
          [groups](const std::string& m, const IntegerWeight& w) -> std::vector<FileBytes> {
            const auto count = static_cast<std::size_t>(w.rows * w.columns);
            const Shape scales = groups > 0 ? Shape{w.rows, groups} : Shape{1};
            return {file_bytes(m + ".weight", DType::f8_e4m3, {w.rows, w.columns},
                               std::vector<std::uint8_t>(count, 0x38)),
                    float_bytes(m + ".weight_scale", DType::bf16, scales,
                                std::vector<float>(static_cast<std::size_t>(scales.num_elements()),
                                                   0.01f))};
          }};
}

TEST(PackedContradictions, OfScalesOfF8AreRefused) {
  const PackedKind rows = rows_of_f8();
  ModelPair model(rows, config_of("llama", "LlamaForCausalLM"));
  write_llama(model);
  EXPECT_NO_THROW(logits_of_model(model.packed_path(), false));
  for (const char* strategy : {"tensor", "group"})
    expect_contradiction(
        rows, compressed_tensors_config("float-quantized", 8, strategy, 0, true, "", "float"),
        fmt::format("1]; expected the scales of the strategy \"{}\"", strategy));
  // Rows of 64 and of 128 values in groups of 32.
  PackedKind in_groups = rows_of_f8();
  in_groups.quantization_config =
      compressed_tensors_config("float-quantized", 8, "group", 32, true, "", "float");
  in_groups.layout = [](const std::string& m, const IntegerWeight& w) {
    return rows_of_f8(w.columns / 32).layout(m, w);
  };
  ModelPair grouped(in_groups, config_of("llama", "LlamaForCausalLM"));
  write_llama(grouped);
  EXPECT_NO_THROW(logits_of_model(grouped.packed_path(), false));
  expect_contradiction(
      in_groups, compressed_tensors_config("float-quantized", 8, "group", 64, true, "", "float"),
      "expected the scales of the strategy \"group\"");
  expect_contradiction(
      in_groups, compressed_tensors_config("mxfp8-quantized", 8, "group", 32, true, "", "float"),
      "has the form float-quantized; expected mxfp8-quantized");
  const PackedKind one_scale = rows_of_f8(0);
  expect_contradiction(one_scale, one_scale.quantization_config,
                       "has scales [1]; expected the scales of the strategy \"channel\"");
  expect_contradiction(
      rows, compressed_tensors_config("float-quantized", 8, "channel", 0, false, "", "float"),
      "has no zero points; expected zero points, because it is not symmetric");
}

TEST(PackedContradictions, OfMethodsAndF8AreRefused) {
  for (const auto& [method, config] :
       {std::pair<const char*, std::string>{"gptq", gptq_config(4, 32, true, 1)},
        {"awq", awq_config(32)},
        {"mxfp4", R"({"quant_method": "mxfp4"})"}})
    expect_contradiction(rows_of_f8(), config,
                         fmt::format("is f8_e4m3; expected a packed or a plain weight, because "
                                     "quant_method is \"{}\"",
                                     method));
}

TEST(PackedContradictions, IgnoredModulesArePlain) {
  for (const std::string module : {"model.layers.1.self_attn.q_proj", "re:.*layers.1.*q_proj",
                                   R"(re:model\\.layers\\.1{,2}\\.self_attn\\.q_proj)"}) {
    std::string config = packed_kinds()[0].quantization_config;
    config.pop_back();
    expect_contradiction(packed_kinds()[0],
                         config + R"(, "ignore": ["lm_head", ")" + module + "\"]}",
                         "weight 'model.layers.1.self_attn.q_proj.weight' is quantised; expected a "
                         "plain weight");
  }
}

// The class of all quantised modules.
TEST(PackedContradictions, AnIgnoredClassHasPlainWeights) {
  std::string config = packed_kinds()[0].quantization_config;
  config.pop_back();
  expect_contradiction(
      packed_kinds()[0], config + R"(, "ignore": ["Linear"]})",
      "weight 'model.layers.0.mlp.down_proj.weight' is quantised; expected a plain "
      "weight");
}

TEST(PackedContradictions, AModuleBelongsToTheGroupOfItsName) {
  const auto group = [](const std::string& target, int bits) {
    return R"({"targets": [")" + target +
           R"("], "format": "pack-quantized", "weights": {"num_bits": )" + std::to_string(bits) +
           R"(, "type": "int", "strategy": "group", "group_size": 32,
             "symmetric": true}})";
  };
  const auto config = [&](const std::string& down_proj) {
    return R"({"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups":
              {"a": )" +
           down_proj + R"(, "b": )" + group("Linear", 4) + "}}";
  };
  expect_contradiction(packed_kinds()[0], config(group("re:.*down_proj$", 8)),
                       "weight 'model.layers.0.mlp.down_proj.weight' has integers of 4 bits; "
                       "expected integers of 8 bits");
  PackedKind kind = packed_kinds()[0];
  kind.quantization_config = config(group("re:.*other$", 8));
  ModelPair model(kind, config_of("llama", "LlamaForCausalLM"));
  write_llama(model);
  expect_same_model(model, 14);
}

// Checkpoints that transformers wrote have the names of its modules in the lists and others in the
// files.
TEST(PackedContradictions, AModuleOfAMultimodalModelHasTwoNames) {
  const std::string model_config =
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "text_config": )" +
      config_of("llama", "LlamaForCausalLM") + "}";
  const auto group = [](const std::string& target, int bits) {
    return fmt::format(
        R"({{"targets": ["{}"], "format": "pack-quantized", "weights": {{"num_bits": {},
             "type": "int", "strategy": "group", "group_size": 32, "symmetric": true}}}})",
        target, bits);
  };
  const auto config = [&](const std::string& ignored) {
    return fmt::format(
        R"({{"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["{}"],
             "config_groups": {{"a": {}, "b": {}}}}})",
        ignored, group(R"(re:model\\.language_model\\.layers\\..*_proj$)", 4), group("Linear", 8));
  };
  PackedKind kind = packed_kinds()[0];
  kind.quantization_config = config("lm_head");
  ModelPair model(kind, model_config);
  write_llama(model, "language_model.");
  expect_same_model(model, 14);
  for (const std::string folder : {"model.language_model.", "language_model.model."}) {
    const std::string ignored = folder + "layers.1.self_attn.q_proj";
    kind.quantization_config = config(ignored);
    ModelPair refused(kind, model_config);
    write_llama(refused, "language_model.");
    EXPECT_ERROR_SAYS(
        logits_of_model(refused.packed_path(), false), ExitCode::checkpoint,
        "weight 'language_model.model.layers.1.self_attn.q_proj.weight' is quantised; expected a "
        "plain weight");
    EXPECT_ERROR_SAYS(logits_of_model(refused.packed_path(), false), ExitCode::checkpoint,
                      "'quantization_config.ignore' contains '" + ignored + "'");
  }
}

}  // namespace
}  // namespace lamina::testing
