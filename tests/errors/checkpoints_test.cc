// Checkpoints that do not fit their config: the tensors specific to a family, damaged in turn.
#include <functional>
#include <map>

#include "errors/workplace.h"
#include "io/weight_files.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

struct Stored {
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};
using Checkpoint = std::map<std::string, Stored>;
using Change = std::function<void(Checkpoint&)>;

Change without(std::string name) {
  return [=](Checkpoint& c) { EXPECT_EQ(c.erase(name), 1u) << name; };
}
// All values are zero.
Change as(std::string name, DType dtype, Shape shape) {
  return [=](Checkpoint& c) {
    c[name] = {dtype, shape,
               std::vector<std::byte>(static_cast<std::size_t>(shape.num_elements()) *
                                      static_cast<std::size_t>(size_bytes(dtype)))};
  };
}

// Expects this error from decoding the golden case with the given change of its weights.
void expect(const std::string& golden, const Change& change, const std::vector<std::string>& says) {
  const fs::path from = golden_model(golden);
  ASSERT_TRUE(fs::exists(from)) << from;
  Checkpoint checkpoint;
  const io::WeightFiles files(from.string());
  for (std::string_view name : files.names()) {
    const io::TensorView view = files.tensor(name);
    checkpoint[std::string(name)] = {
        view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}};
  }
  change(checkpoint);
  Workplace w;
  fs::create_directory(w.path("m"));
  fs::copy(from / "config.json", w.path("m/config.json"));
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, stored] : checkpoint) specs.push_back({name, stored.dtype, stored.shape});
  io::write_weight_files(w.path("m").string(), specs, [&](const io::TensorSpec& spec) {
    return std::span<const std::byte>(checkpoint.at(spec.name).bytes);
  });
  w.expect({{"decode", "-m", "m", "--ids", "1"}, 4, says});
}

TEST(CheckpointErrors, WrongTensorsOfSeparateExpertsAreNamed) {
  const std::string name = "model.layers.1.block_sparse_moe.experts.2.w2.weight";
  const std::string in_file = "m/model.safetensors: tensor '" + name + "'";
  expect("mixtral_8x", without(name),
         {"m: tensor '" + name + "' is missing", "for parameter 'layers.1.moe.experts.w2.weight'"});
  expect(
      "mixtral_8x", as(name, DType::f32, {28, 40}),
      {in_file + " is [28, 40], but the config requires [40, 28]",
       "for parameter 'layers.1.moe.experts.w2.weight'",
       "use the config.json that belongs to these weights",
       "if you write the plugin: kTranspose in this tensor's row of its map would give [40, 28]"});
  expect(
      "mixtral_8x", as(name, DType::f32, {40, 1, 28}),
      {in_file + " is [40, 1, 28], but the config requires [40, 28]",
       "if you write the plugin: squeezed(1) in this tensor's row of its map would give [40, 28]"});
  expect("mixtral_8x", as(name, DType::i64, {40, 28}),
         {in_file + " has element type i64; expected f32, f16, bf16 or f64"});
  expect("mixtral_8x", as(name, DType::u8, {40, 28}),
         {in_file + " has element type u8; expected f32, bf16, f16 or f64"});
  expect("mixtral_8x", as("model.layers.1.block_sparse_moe.experts.9.w2.weight", DType::f32, {2}),
         {"m: 1 tensor that family 'mixtral' does not use, eg "
          "'model.layers.1.block_sparse_moe.experts.9.w2.weight'"});
  expect("qwen3_moe_norm", without("model.layers.0.mlp.experts.3.gate_proj.weight"),
         {"tensor 'model.layers.0.mlp.experts.3.gate_proj.weight' is missing"});
}

TEST(CheckpointErrors, WrongTensorsOfStackedExpertsAreNamed) {
  const std::string name = "model.language_model.layers.0.mlp.experts.gate_up_proj";
  expect(
      "qwen3_5_moe", without(name),
      {"mlp.experts.gate_up_proj' is missing", "for parameter 'layers.0.moe.experts.w1.weight'"});
  expect("qwen3_5_moe", as(name, DType::bf16, {6, 40, 32}),
         {"m/model.safetensors: tensor '" + name +
          "' is [6, 40, 32], but the config requires [6, 32, 40]"});
  expect("qwen3_5_moe", as(name, DType::bf16, {5, 32, 40}),
         {"' is [5, 32, 40], but the config requires [6, 32, 40]"});
  expect("llama4_hub",
         as("language_model.model.layers.0.feed_forward.router.weight", DType::f32, {3, 40}),
         {"' is [3, 40], but the config requires [4, 40]"});
}

TEST(CheckpointErrors, Mxfp4WithoutItsScalesNamesTheExpectedTensor) {
  const std::string stem = "model.layers.0.mlp.experts.gate_up_proj", blocks = stem + "_blocks",
                    scales = stem + "_scales";
  const std::string in_file = "m/model.safetensors: tensor '" + blocks + "'";
  expect("gpt_oss_mxfp4", without(blocks), {"m: tensor '" + stem + "' is missing"});
  expect("gpt_oss_mxfp4", without(scales),
         {in_file + " has no scales", "expected a tensor '" + scales + "' beside it"});
  expect("gpt_oss_mxfp4", as(blocks, DType::u8, {5, 2, 192, 16}),
         {in_file + " is u8[5, 2, 192, 16], and '" + scales +
          "' is u8[5, 192, 2]; expected u8[.., G, 16] and u8[.., G]"});
  expect("gpt_oss_mxfp4", as(scales, DType::u8, {5, 192, 3}),
         {in_file + " is u8[5, 192, 2, 16], and '" + scales + "' is u8[5, 192, 3]"});
  expect("gpt_oss_mxfp4", as(scales, DType::f16, {5, 192, 2}), {"' is f16[5, 192, 2]; expected "});
  expect("gpt_oss_mxfp4", as(blocks, DType::bf16, {5, 192, 2, 16}),
         {in_file + " is [5, 192, 2, 16], but the config requires [5, 64, 192]"});
}

TEST(CheckpointErrors, Fp4WithoutItsScalesNamesTheExpectedTensor) {
  const std::string stem = "layers.1.ffn.experts.3.w2", name = stem + ".weight",
                    scales = stem + ".scale";
  const std::string in_file = "m/model.safetensors: tensor '" + name + "'";
  auto stored = [&](const Shape& pairs, DType dtype, const Shape& grid) {
    return [=](Checkpoint& c) {
      as(name, DType::i8, pairs)(c);
      as(scales, dtype, grid)(c);
    };
  };
  expect("deepseek_v4", as(name, DType::i8, {32, 8}),
         {in_file + " is stored as i8, but its scales are missing",
          "expected a tensor '" + scales + "'"});
  expect("deepseek_v4", stored({32, 8}, DType::f8_e8m0, {32, 2}),
         {in_file +
          " is i8[32, 8], pairs of FP4 values in blocks of 32: its scales must be "
          "f8_e8m0[32, 1], but '" +
          scales + "' is f8_e8m0[32, 2]"});
  expect("deepseek_v4", stored({32, 8}, DType::f32, {32, 1}), {"'" + scales + "' is f32[32, 1]"});
  expect("deepseek_v4", stored({32, 16}, DType::f8_e8m0, {32, 1}),
         {in_file + " is [32, 32], but the config requires [32, 16]"});
  expect("deepseek_v4", stored({256}, DType::f8_e8m0, {16}), {"such weights must be matrices"});
}

TEST(CheckpointErrors, Fp8WithoutItsScalesNamesTheExpectedTensor) {
  const std::string name = "model.layers.0.self_attn.o_proj.weight";
  const std::string in_file = "m/model.safetensors: tensor '" + name + "'";
  const Shape shape = io::WeightFiles(golden_model("deepseek_v3_mtp")).tensor(name).shape;
  auto stored = [&](DType scales, const Shape& grid) {
    return [=](Checkpoint& c) {
      as(name, DType::f8_e4m3, shape)(c);
      as(name + "_scale_inv", scales, grid)(c);
    };
  };
  expect("deepseek_v3_mtp", as(name, DType::f8_e4m3, shape),
         {in_file + " is stored as f8_e4m3, but its scales are missing",
          " or '" + name + "_scale' or '" + name + "_scale_inv' beside it"});
  expect(
      "deepseek_v3_mtp", stored(DType::f32, {7, 2}),
      {in_file + " is " + to_string(shape) + ", in blocks of 128 x 128: its scales must be",
       "'" + name + "_scale_inv' is [7, 2]", "quantization_config of config.json gives the size"});
  for (const auto& [type, shown] : {std::pair{DType::i32, "i32"}, {DType::f8_e5m2, "f8_e5m2"}})
    expect("deepseek_v3_mtp", stored(type, {1, 1}),
           {in_file + " has scales '" + name + "_scale_inv' of type " + shown,
            "expected scales of type f32, bf16, f16, f8_e8m0 or u8"});
}

// A whole prediction layer may be missing, together with the tensors that are published with it.
TEST(CheckpointErrors, MissingPartsOfAPredictionLayerAreNamed) {
  const std::string name = "model.layers.2.eh_proj.weight";
  expect("deepseek_v3_mtp", without(name),
         {"m: tensor '" + name + "' is missing", "for parameter 'mtp.0.eh_proj.weight'"});
  expect("deepseek_v3_mtp", as("model.layers.2.eh_projection.weight", DType::f32, {2, 2}),
         {"m: 1 tensor that family 'deepseek' does not use, eg "
          "'model.layers.2.eh_projection.weight'"});
  expect("deepseek_v3_mtp", as("model.layers.2.mlp.gate.wait", DType::f32, {2}),
         {"1 tensor that family 'deepseek' does not use"});
}

// For names that count prediction layers from 0.
TEST(CheckpointErrors, MissingPartsOfNumberedPredictionLayersAreNamed) {
  const Shape shape{2};
  expect("deepseek_v4_mtp", without("mtp.0.e_proj.weight"),
         {"m: tensor 'mtp.0.e_proj.weight' is missing", "for parameter 'mtp.0.e_proj.weight'"});
  expect("deepseek_v4_mtp", as("mtp.0.e_projection.weight", DType::f32, shape),
         {"1 tensor that family 'deepseek4' does not use"});
  expect("qwen3_next_mtp", without("mtp.fc.weight"), {"m: tensor 'mtp.fc.weight' is missing"});
  expect("qwen3_next_mtp", as("mtp.fc.bias", DType::f32, shape),
         {"1 tensor that family 'qwen3_next' does not use"});
}

TEST(CheckpointErrors, MissingTensorsOfSingleFamiliesAreNamed) {
  const std::pair<const char*, const char*> needed[] = {
      {"deepseek_v3_mtp", "model.layers.1.mlp.gate.e_score_correction_bias"},
      {"deepseek_v3_mtp", "model.layers.0.self_attn.kv_a_layernorm.weight"},
      {"deepseek_v2_group", "model.layers.0.self_attn.q_a_proj.weight"},
      {"qwen3_next_4", "model.layers.0.linear_attn.A_log"},
      {"qwen3_next_4", "model.layers.0.linear_attn.conv1d.weight"},
      {"gpt_oss_mxfp4", "model.layers.0.self_attn.sinks"},
      {"gpt_oss_mxfp4", "model.layers.0.mlp.router.bias"},
      {"gemma2_7_layers", "model.layers.0.pre_feedforward_layernorm.weight"},
      {"olmo3_yarn", "model.layers.0.self_attn.q_norm.weight"},
  };
  for (const auto& [golden, name] : needed)
    expect(golden, without(name), {std::string("tensor '") + name + "' is missing"});
}

}  // namespace
}  // namespace lamina::testing
