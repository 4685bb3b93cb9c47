// lamina quantize: directories that decode as formats on the fly, refusals, interruptions.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

#include "cli/spoilt_model.h"
#include "cli/trained_run.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "io/weight_files.h"
#include "model/quantise.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/published_model.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

std::vector<std::string> formats() {
  return {"int8", "int4", "int4-g64", "int4-g128", "mxfp4", "fp8"};
}

std::string ids_of(const std::string& model, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"decode",  "-m",      model,        "--ids", "1,2,3,4",
                                    "-n",      "12",      "--temp",     "0",     "--json",
                                    "--dtype", "float32", "--logprobs", "3"};
  words.insert(words.end(), more.begin(), more.end());
  const Finished result = lamina_program(words);
  EXPECT_EQ(result.code, 0) << result.err;
  if (result.code != 0) return "";
  // All but the times: ids, and their log probabilities to every digit.
  const JsonDocument json = JsonDocument::parse(result.out, "decode");
  std::string out;
  for (const auto& [key, value] : json.root().members())
    if (key == "tokens" || key == "logprobs" || key == "ids")
      out += JsonWriter(0).value(value).text();
  return out;
}

Finished quantize(const std::string& from, const std::string& to, const std::string& format,
                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"quantize", from, "-o", to, "--format", format};
  words.insert(words.end(), more.begin(), more.end());
  return lamina_program(words);
}

std::string first_of(JsonValue list) {
  for (JsonValue value : list.elements()) return std::string(value.as_string());
  return "";
}

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder))
    out.push_back(entry.path().filename().string());
  return out;
}

TEST(QuantizeDirectory, ADirectoryDecodesAsTheFormatOnTheFly) {
  const TempDir folder;
  const std::string plain = ids_of(trained_run(), {});
  for (const std::string& format : formats()) {
    const std::string to = folder / format;
    const Finished result = quantize(trained_run(), to, format);
    ASSERT_EQ(result.code, 0) << format << '\n' << result.err;
    const std::string on_the_fly = ids_of(trained_run(), {"--quantize", format});
    EXPECT_EQ(ids_of(to, {}), on_the_fly) << format;
    EXPECT_NE(on_the_fly, plain) << format;
  }
}

TEST(QuantizeDirectory, APublishedModelKeepsItsOtherFiles) {
  const TempDir folder;
  if (!lamina::testing::has_golden_model("llama31_rope")) GTEST_SKIP() << "no golden models";
  const std::string from = lamina::testing::add_golden_model(folder, "llama31_rope");
  const std::string to = folder / "quantised";
  ASSERT_EQ(quantize(from, to, "nvfp4").code, 0);
  for (const char* name : {"tokenizer.json", "generation_config.json", "special_tokens_map.json"})
    EXPECT_EQ(folder.read(std::string("model/") + name),
              folder.read(std::string("quantised/") + name));
  EXPECT_EQ(ids_of(to, {}), ids_of(from, {"--quantize", "nvfp4"}));
}

TEST(QuantizeDirectory, ConfigListsFormatsAndPlainModules) {
  const TempDir folder;
  const std::string to = folder / "mixed";
  const Finished result = quantize(trained_run(), to, "int4", {"--quantize-rule", "head=int8"});
  ASSERT_EQ(result.code, 0) << result.err;
  const JsonDocument json = JsonDocument::parse(folder.read("mixed/config.json"), "config.json");
  const JsonValue config = json.root().at("quantization_config");
  EXPECT_EQ(config.at("quant_method").as_string(), "compressed-tensors");
  EXPECT_EQ(config.at("format").as_string(), "pack-quantized");
  const JsonValue others = config.at("config_groups").at("group_0");
  const JsonValue head = config.at("config_groups").at("group_1");
  EXPECT_EQ(first_of(head.at("targets")), "lm_head");
  EXPECT_EQ(head.at("weights").at("num_bits").as_int64(), 8);
  EXPECT_EQ(first_of(others.at("targets")), "Linear");
  EXPECT_EQ(others.at("weights").at("num_bits").as_int64(), 4);
  EXPECT_EQ(others.at("weights").at("group_size").as_int64(), 32);
  // Their rows of 48 values are not whole blocks.
  std::vector<std::string> ignored;
  for (JsonValue module : config.at("ignore").elements()) ignored.emplace_back(module.as_string());
  EXPECT_THAT(ignored, ::testing::UnorderedElementsAre("model.layers.0.mlp.down_proj",
                                                       "model.layers.1.mlp.down_proj"));
}

// Names of tensors and of modules differ in multimodal models: transformers has
// model.language_model.layers and lm_head.
TEST(QuantizeDirectory, ConfigListsTheNamesOfFilesAndOfTransformers) {
  const TempDir folder;
  const std::string model = folder / "model";
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", model}).code, 0);
  nest_config(folder, "model");
  rename_tensors(model, [](const std::string& name) { return "language_model." + name; });
  const auto config_of = [&](const std::string& name, const std::vector<std::string>& rules) {
    const Finished result = quantize(model, folder / name, "int4", rules);
    EXPECT_EQ(result.code, 0) << result.err;
    return JsonDocument::parse(folder.read(name + "/config.json"), "config.json");
  };
  const auto texts = [](JsonValue list) {
    std::vector<std::string> out;
    for (JsonValue value : list.elements()) out.emplace_back(value.as_string());
    return out;
  };
  const JsonDocument plain_head = config_of("plain_head", {});
  EXPECT_THAT(texts(plain_head.root().at("quantization_config").at("ignore")),
              ::testing::UnorderedElementsAre("language_model.lm_head", "lm_head",
                                              "language_model.model.layers.0.mlp.down_proj",
                                              "model.language_model.layers.0.mlp.down_proj",
                                              "language_model.model.layers.1.mlp.down_proj",
                                              "model.language_model.layers.1.mlp.down_proj"));
  const JsonDocument int8_head = config_of("int8_head", {"--quantize-rule", "head=int8"});
  const JsonValue config = int8_head.root().at("quantization_config");
  EXPECT_THAT(texts(config.at("config_groups").at("group_1").at("targets")),
              ::testing::ElementsAre("language_model.lm_head", "lm_head"));
  EXPECT_THAT(texts(config.at("ignore")), ::testing::Not(::testing::Contains("lm_head")));
  EXPECT_EQ(ids_of(folder / "int8_head", {}),
            ids_of(model, {"--quantize", "int4", "--quantize-rule", "head=int8"}));
}

// Returns a model whose attention has more values than its experts of this width.
std::string model_of_experts(const TempDir& folder, int width = 32) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "The sky is blue.\n";
  const std::string run =
      "family = \"mixtral\"\n[model]\nvocab_size = 258\nhidden_size = 128\n"
      "intermediate_size = " +
      std::to_string(width) +
      "\nnum_hidden_layers = 2\nnum_attention_heads = 8\n"
      "num_key_value_heads = 8\nnum_local_experts = 2\nnum_experts_per_tok = 1\n"
      "max_position_embeddings = 64\n[run]\nout = \"" +
      folder / "experts" + "\"\n[data]\ntrain = \"" + folder.write("text.txt", text) +
      "\"\nsequence_length = 16\n[train]\nsteps = 1\nbatch_size = 1\n";
  EXPECT_EQ(lamina_program({"train", folder.write("experts.toml", run), "--quiet"}).code, 0);
  return folder / "experts";
}

// transformers uses the first group for experts.
TEST(QuantizeDirectory, TheFirstGroupHasTheExperts) {
  const TempDir folder;
  const std::string from = model_of_experts(folder);
  const Finished result =
      quantize(from, folder / "mixed", "int4", {"--quantize-rule", "layers.*.attention.*=fp8"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("warning")));
  const JsonDocument json = JsonDocument::parse(folder.read("mixed/config.json"), "config.json");
  const JsonValue groups = json.root().at("quantization_config").at("config_groups");
  EXPECT_EQ(first_of(groups.at("group_0").at("targets")), "Linear");
  EXPECT_EQ(groups.at("group_0").at("weights").at("num_bits").as_int64(), 4);
  EXPECT_EQ(groups.at("group_1").at("weights").at("num_bits").as_int64(), 8);
}

TEST(QuantizeDirectory, ExpertsOfSeveralFormatsAreAWarning) {
  const TempDir folder;
  const std::string from = model_of_experts(folder);
  for (const auto& [rule, formats] :
       {std::pair("layers:0=int8", "INT4_32 and INT8_128 and INT8_32"),
        std::pair("layers.*.experts.w2.*=none", "INT4_32 and none")}) {
    const std::string to = folder / std::string(formats);
    const Finished result = quantize(from, to, "int4", {"--quantize-rule", rule});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err,
                HasSubstr(std::string("transformers needs one format for all experts, and here "
                                      "they have ") +
                          formats));
  }
}

// transformers makes experts of the numbers and their scales alone.
TEST(QuantizeDirectory, ExpertsInNvfp4AreAWarning) {
  const TempDir folder;
  const std::string from = model_of_experts(folder, 64);
  const Finished result = quantize(from, folder / "nvfp4", "nvfp4");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("transformers ignores the global scales of experts in nvfp4"));
  const Finished other =
      quantize(from, folder / "mixed", "nvfp4", {"--quantize-rule", "layers.*.experts.*=mxfp4"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err, Not(HasSubstr("transformers")));
}

// Rows of 32 and of 128 values have other blocks here, but one form in files.
TEST(QuantizeDirectory, Fp8IsOneFormatForAllWidths) {
  const TempDir folder;
  const std::string from = model_of_experts(folder);
  const Finished result = quantize(from, folder / "fp8", "fp8");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("warning")));
  const JsonDocument json = JsonDocument::parse(folder.read("fp8/config.json"), "config.json");
  const JsonValue groups = json.root().at("quantization_config").at("config_groups");
  EXPECT_FALSE(groups.find("group_1"));
  EXPECT_EQ(ids_of(folder / "fp8", {}), ids_of(from, {"--quantize", "fp8"}));
}

// Replaces the values of a matrix in f32 by value_of(row, column, value).
void change_matrix(const std::string& model, const std::string& tensor, std::size_t columns,
                   const std::function<float(std::size_t, std::size_t, float)>& value_of) {
  spoil_tensor(model, tensor, [&](std::span<std::byte> bytes) {
    for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
      float value;
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      value = value_of(i / columns, i % columns, value);
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
  });
}

// A pruned or a padded matrix: a group of zeros in a row of small values, and a row of zeros among
// small values.
TEST(QuantizeDirectory, ZerosHaveAFormInNvfp4BesideAnyValues) {
  const TempDir folder;
  const std::string model = folder / "model", attention = "model.layers.0.self_attn.";
  ASSERT_EQ(ckpt({"export", model_of_experts(folder), "--to", model}).code, 0);
  change_matrix(model, attention + "q_proj.weight", 128,
                [](std::size_t row, std::size_t column, float value) {
                  if (row != 7) return value;
                  return column / 16 == 1 ? 0 : column % 2 == 0 ? .005f : -.005f;
                });
  change_matrix(
      model, attention + "k_proj.weight", 128,
      [](std::size_t row, std::size_t, float value) { return row == 3 ? 0 : value / 1024; });
  const Finished result = quantize(model, folder / "out", "nvfp4");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(ids_of(folder / "out", {}), ids_of(model, {"--quantize", "nvfp4"}));
}

TEST(QuantizeDirectory, TablesOfTokensHaveNoForm) {
  const TempDir folder;
  const Finished result =
      quantize(trained_run(), folder / "out", "int4", {"--quantize-rule", "embedding=int8"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("error: model.embed_tokens.weight: "));
  EXPECT_THAT(result.err, HasSubstr("transformers reads tables of tokens as plain tensors only"));
  EXPECT_FALSE(fs::exists(folder / "out"));
}

// Python writes such numbers, eg for the limits of time steps.
TEST(QuantizeDirectory, ConfigMayHaveInfiniteNumbers) {
  const TempDir folder;
  const std::string model = folder / "model";
  ASSERT_EQ(lamina_program({"ckpt", "export", trained_run(), "--to", model}).code, 0);
  std::string config = folder.read("model/config.json");
  config.insert(config.find('{') + 1, "\"time_step_limit\": [0.0, Infinity],");
  folder.write("model/config.json", config);
  const Finished result = quantize(model, folder / "out", "int4");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(folder.read("out/config.json"), HasSubstr("Infinity"));
}

// Some programs write null for plain weights.
TEST(QuantizeDirectory, ConfigMayHaveAQuantizationConfigOfNull) {
  const TempDir folder;
  const std::string model = folder / "model";
  ASSERT_EQ(lamina_program({"ckpt", "export", trained_run(), "--to", model}).code, 0);
  std::string config = folder.read("model/config.json");
  config.insert(config.find('{') + 1, "\"quantization_config\": null,");
  folder.write("model/config.json", config);
  const Finished result = quantize(model, folder / "out", "int4");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(ids_of(folder / "out", {}), ids_of(model, {"--quantize", "int4"}));
}

// Rows of 48 and 80 values, which no block divides: a plain directory that decodes as on the fly.
TEST(QuantizeDirectory, AModelOfOddRowsStaysPlainWithAWarning) {
  const TempDir folder;
  if (!lamina::testing::has_golden_model("llama_bias")) GTEST_SKIP() << "no golden models";
  const std::string from = lamina::testing::add_golden_model(folder, "llama_bias");
  const std::string to = folder / "quantised";
  const Finished result = quantize(from, to, "int4-g128");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("matrices that should become int4-g128 stay plain, because their rows are "
                        "not multiples of 32 values: all, eg: "));
  EXPECT_THAT(result.err,
              HasSubstr("; this accepts that without a warning: --quantize-rule 'layers.*."));
  EXPECT_THAT(result.err, HasSubstr("=none' --quantize-rule 'layers.*."));
  EXPECT_EQ(folder.read("quantised/config.json").find("quantization_config"), std::string::npos);
  EXPECT_EQ(ids_of(to, {}), ids_of(from, {"--quantize", "int4-g128"}));
}

// Moves the weights of an exported model beside a file with a tensor of an encoder, and its config
// into text_config.
void add_encoder(const TempDir& folder, const std::string& model, const std::string& type,
                 std::uint64_t num_bytes) {
  nest_config(folder, model);
  fs::rename(folder / (model + "/model.safetensors"), folder / (model + "/language.safetensors"));
  const std::string header =
      fmt::format(R"({{"vision_tower.scale":{{"dtype":"{}","shape":[2],"data_offsets":[0,{}]}}}})",
                  type, num_bytes);
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  folder.write(model + "/encoder.safetensors", file + header + std::string(num_bytes, '\0'));
  folder.write(model + "/model.safetensors.index.json",
               R"({"weight_map": {"model.norm.weight": "language.safetensors",
                   "vision_tower.scale": "encoder.safetensors"}})");
}

TEST(QuantizeDirectory, TensorsThatTheModelDoesNotUseMayHaveAnyType) {
  const TempDir folder;
  for (const auto& [type, num_bytes] : {std::pair("C64", 16), {"U8", 2}, {"F8_E4M3", 2}}) {
    const std::string model = type, from = folder / model, to = folder / (model + "-quantised");
    ASSERT_EQ(ckpt({"export", trained_run(), "--to", from}).code, 0);
    add_encoder(folder, model, type, static_cast<std::uint64_t>(num_bytes));
    const Finished result = quantize(from, to, "int4");
    ASSERT_EQ(result.code, 0) << type << '\n' << result.err;
    EXPECT_EQ(ids_of(to, {}), ids_of(from, {"--quantize", "int4"})) << type;
    EXPECT_NE(ids_of(from, {}), "") << type;
  }
}

// Tensors that stay plain are copied; the copy must be a model that decodes.
TEST(QuantizeDirectory, PlainTensorsMustBeFinite) {
  const TempDir folder;
  const std::string model = folder / "model";
  ASSERT_EQ(lamina_program({"ckpt", "export", trained_run(), "--to", model}).code, 0);
  spoil_tensor(model, "model.embed_tokens.weight", [](std::span<std::byte> bytes) {
    const float infinite = std::numeric_limits<float>::infinity();
    std::memcpy(bytes.data() + sizeof infinite, &infinite, sizeof infinite);
  });
  const Finished result = quantize(model, folder / "quantised", "int8");
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("tensor 'model.embed_tokens.weight' has the value inf at [0, "
                                    "1]; expected finite numbers"));
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"model"});
}

TEST(QuantizeDirectory, CheckpointCommandsReadTheDirectory) {
  const TempDir folder;
  const std::string to = folder / "q";
  ASSERT_EQ(quantize(trained_run(), to, "int8").code, 0);
  const Finished listed = ckpt({"ls", "-v", to});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("weight_packed"));
  const Finished evaluated =
      lamina_program({"eval", "-m", to, "--data", LAMINA_SOURCE_DIR "/docs/glossary.md"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
}

TEST(QuantizeDirectory, AQuantisedModelIsNotQuantisedAgain) {
  const TempDir folder;
  const std::string to = folder / "q";
  ASSERT_EQ(quantize(trained_run(), to, "int8").code, 0);
  const Finished again = quantize(to, folder / "again", "int4");
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("is quantised already"));
  const Finished decoded =
      lamina_program({"decode", "-m", to, "--quantize", "int4", "--ids", "1", "-n", "1"});
  EXPECT_EQ(decoded.code, 2);
  EXPECT_THAT(decoded.err, HasSubstr("error: --quantize: " + to + " is quantised already: "));
  EXPECT_THAT(decoded.err,
              EndsWith("\n  remove it: all matrices that it would round are quantised in the "
                       "files\n"));
}

// Its experts are in MXFP4, its attention is plain.
TEST(QuantizeDirectory, MatricesThatAreQuantisedStayWithTheAdvisedRules) {
  std::vector<std::string> words = {
      "decode",     "-m",   LAMINA_SOURCE_DIR "/tests/golden/hf/gpt_oss_mxfp4",
      "--quantize", "int8", "--ids",
      "1",          "-n",   "1"};
  const Finished refused = lamina_program(words);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              EndsWith("\n  remove it, or add these rules before all others, which leave quantised "
                       "matrices as they are: "
                       "--quantize-rule 'layers.*.moe.experts.w1.weight=none' "
                       "--quantize-rule 'layers.*.moe.experts.w2.weight=none' "
                       "--quantize-rule 'layers.*.moe.experts.w3.weight=none'\n"));
  for (const std::string name : {"w1", "w2", "w3"})
    words.insert(words.end(), {"--quantize-rule", "layers.*.moe.experts." + name + ".weight=none"});
  const Finished decoded = lamina_program(words);
  EXPECT_EQ(decoded.code, 0) << decoded.err;
}

// The type of the bytes of a packed matrix is no type of a model.
TEST(QuantizeDirectory, AnExportOfPackedWeightsKeepsTheTypeOfTheConfig) {
  const TempDir folder;
  for (const std::string& format : formats()) {
    const std::string to = folder / format;
    ASSERT_EQ(quantize(trained_run(), to, format).code, 0);
    std::string config = folder.read(format + "/config.json");
    const std::string before = "\"torch_dtype\": \"float32\"",
                      other = "\"torch_dtype\": \"bfloat16\"";
    ASSERT_THAT(config, HasSubstr(before)) << format;
    config.replace(config.find(before), before.size(), other);
    folder.write(format + "/config.json", config);
    const Finished result = ckpt({"export", to, "--to", to + "-copy"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(folder.read(format + "-copy/config.json"), HasSubstr(other)) << format;
    ASSERT_EQ(ckpt({"export", to, "--to", to + "-wide", "--dtype", "float32"}).code, 0);
    EXPECT_THAT(folder.read(format + "-wide/config.json"), HasSubstr(before)) << format;
  }
}

TEST(QuantizeDirectory, AnExportOfPlainValuesIsPlainInTextConfigToo) {
  const TempDir folder;
  ASSERT_EQ(quantize(trained_run(), folder / "q", "int8").code, 0);
  nest_config(folder, "q");
  const Finished result =
      ckpt({"export", folder / "q", "--to", folder / "plain", "--dtype", "bfloat16"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(folder.read("plain/config.json"), HasSubstr("text_config"));
  EXPECT_THAT(folder.read("plain/config.json"), Not(HasSubstr("quantization_config")));
  const Finished again = quantize(folder / "plain", folder / "again", "int4");
  EXPECT_EQ(again.code, 0) << again.err;
}

std::vector<std::string> tensor_names(const std::string& directory) {
  const io::WeightFiles files(directory);
  return {files.names().begin(), files.names().end()};
}

// Writes the model of trained_run() as the language model of a multimodal one.
void write_multimodal(const TempDir& folder, const std::string& name) {
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "plain"}).code, 0);
  const std::string outer = "language_model.";
  const io::WeightFiles files(folder / "plain");
  std::vector<io::TensorSpec> specs;
  for (std::string_view tensor : files.names())
    specs.push_back(
        {outer + std::string(tensor), files.tensor(tensor).dtype, files.tensor(tensor).shape});
  fs::create_directory(folder / name);
  io::write_weight_files(folder / name, specs, [&](const io::TensorSpec& spec) {
    return files.tensor(std::string_view(spec.name).substr(outer.size())).bytes;
  });
  fs::copy_file(folder / "plain/config.json", folder / name + "/config.json");
  nest_config(folder, name);
}

// The class of its config.json reads no other names.
TEST(QuantizeDirectory, AnExportOfAMultimodalModelKeepsItsNames) {
  const TempDir folder;
  write_multimodal(folder, "model");
  const std::vector<std::string> names = tensor_names(folder / "model");
  EXPECT_THAT(names, Contains("language_model.lm_head.weight"));
  const std::string matrix = "language_model.model.layers.1.self_attn.q_proj.weight";
  for (const char* format : {"int8", "fp8"}) {
    const std::string packed = folder / format, wide = packed + "-wide";
    ASSERT_EQ(quantize(folder / "model", packed, format).code, 0);
    EXPECT_NE(io::WeightFiles(packed).tensor(matrix).dtype, DType::f32);
    const Finished result = ckpt({"export", packed, "--to", wide, "--dtype", "bfloat16"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(io::WeightFiles(wide).tensor(matrix).dtype, DType::bf16);
    EXPECT_THAT(tensor_names(wide), UnorderedElementsAreArray(names));
  }
  ASSERT_EQ(ckpt({"export", folder / "model", "--to", folder / "fused", "--layout", "fused"}).code,
            0);
  EXPECT_THAT(
      tensor_names(folder / "fused"),
      AllOf(Contains("language_model.model.layers.1.self_attn.qkv_proj.weight"),
            Contains("language_model.lm_head.weight"), Each(StartsWith("language_model."))));
  ASSERT_EQ(
      ckpt({"export", folder / "fused", "--to", folder / "again", "--layout", "published"}).code,
      0);
  EXPECT_THAT(tensor_names(folder / "again"), UnorderedElementsAreArray(names));
}

TEST(QuantizeDirectory, AnExistingDirectoryIsRefused) {
  const TempDir folder;
  const Finished result = quantize(trained_run(), folder.path(), "int8");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("exists already; --to must be a new directory"));
}

TEST(QuantizeDirectory, AFileThatCannotBeWrittenLeavesNothing) {
  const TempDir folder;
  const Finished result = lamina::testing::run_shell(
      "ulimit -f 20; " LAMINA_BUILD_DIR "/bin/lamina quantize " + trained_run() +
          " --to q --format "
          "int8",
      {.folder = folder.path()});
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_THAT(entries(folder.path()), ::testing::IsEmpty());
}

// Three matrices in one tensor have one format.
TEST(QuantizeDirectory, MatricesOfOneTensorStayPlainWithTheAdvisedRules) {
  const TempDir folder;
  const std::string from = folder / "fused";
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", from, "--layout", "fused"}).code, 0);
  std::vector<std::string> several = {"--quantize-rule", "layers.*.attention.wk.weight=int8"};
  // Rows of 48 values stay plain; the refusal comes before that warning.
  constexpr const char* kRefusal =
      "error: model.layers.0.self_attn.qkv_proj.weight: has no form in the layout";
  EXPECT_THAT(quantize(from, folder / "out", "int4", several).err, StartsWith(kRefusal));
  // The text does not exist: the refusal comes before it is read.
  several.insert(several.end(), {"--calibrate", folder / "none.txt"});
  const Finished refused = quantize(from, folder / "out", "int4", several);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, StartsWith(kRefusal));
  EXPECT_THAT(refused.err,
              HasSubstr("error: model.layers.0.self_attn.qkv_proj.weight: has no form in the "
                        "layout of compressed-tensors: its rows belong to parameters with several "
                        "formats: "));
  EXPECT_THAT(refused.err, HasSubstr("'layers.0.attention.wk.weight' INT8_32"));
  EXPECT_THAT(refused.err, HasSubstr("'layers.0.attention.wq.weight' INT4_32"));
  EXPECT_THAT(refused.err, HasSubstr("; expected one format for all\n"
                                     "  keep it as it is with these rules before all others, and "
                                     "remove rules that then have no effect: --quantize-rule '"));
  std::vector<std::string> rules;
  for (const std::string name : {"wq", "wk", "wv"}) {
    const std::string rule = "layers.*.attention." + name + ".weight=none";
    EXPECT_THAT(refused.err, HasSubstr("--quantize-rule '" + rule + "'"));
    rules.insert(rules.end(), {"--quantize-rule", rule});
  }
  EXPECT_THAT(refused.err,
              EndsWith("\n  or quantise it when it is loaded: lamina decode --quantize\n"));
  const Finished result = quantize(from, folder / "out", "int4", rules);
  EXPECT_EQ(result.code, 0) << result.err;
}

// Tensors of hyper-connections have no form in the layout.
TEST(QuantizeDirectory, HyperConnectionsStayPlain) {
  const TempDir folder;
  const Finished result =
      quantize(LAMINA_SOURCE_DIR "/tests/golden/hf/deepseek_v4", folder / "out", "int4");
  ASSERT_EQ(result.code, 0) << result.err;
  const io::WeightFiles files(folder / "out");
  EXPECT_TRUE(files.contains("layers.0.attn.wq_a.weight_packed"));
  EXPECT_EQ(files.tensor("layers.0.hc_attn_fn").shape.ndim(), 2);
}

struct Stopped {};

TEST(QuantizeDirectory, AnInterruptionLeavesNothing) {
  const TempDir folder;
  int calls = 0;
  weights::ExportOptions options;
  options.progress = [&](std::uint64_t, std::uint64_t) {
    if (++calls == 5) throw Stopped();
  };
  EXPECT_THROW(model::quantise_to_hf(trained_run(), folder / "q", {.format = "int8"}, options,
                                     lamina::testing::built_plugins()),
               Stopped);
  EXPECT_EQ(calls, 5);
  EXPECT_THAT(entries(folder.path()), ::testing::IsEmpty());
}

// Training may remove the checkpoint while its weights, which are mapped, are written.
TEST(QuantizeDirectory, ACheckpointRemovedMeanwhileLosesNoFiles) {
  const TempDir folder;
  fs::copy(trained_run() + "/checkpoints/step-00000004", folder / "step");
  weights::ExportOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t) {
    if (done == 0) fs::remove_all(folder / "step");
  };
  model::quantise_to_hf(folder / "step", folder / "q", {.format = "int8"}, options,
                        lamina::testing::built_plugins());
  EXPECT_FALSE(fs::exists(folder / "step"));
  EXPECT_TRUE(fs::exists(folder / "q/lamina_tokenizer.json"));
}

TEST(QuantizeDirectory, MeasuringCanBeInterrupted) {
  const TempDir folder;
  int calls = 0;
  model::QuantiseMethod method;
  method.target_bits = 8;
  method.progress = [&](model::QuantiseStage stage, std::int64_t done, std::int64_t total) {
    EXPECT_EQ(stage, model::QuantiseStage::measuring);
    EXPECT_EQ(done, calls);
    EXPECT_EQ(total, 12);  // w2 of both layers stays plain
    if (++calls == 5) throw Stopped();
  };
  EXPECT_THROW(model::quantise_to_hf(trained_run(), folder / "q", {.format = "int4"}, {},
                                     lamina::testing::built_plugins(), method),
               Stopped);
  EXPECT_EQ(calls, 5);
  EXPECT_THAT(entries(folder.path()), ::testing::IsEmpty());
}

TEST(QuantizeDirectory, AnUnknownFormatEndsWith2) {
  const TempDir folder;
  EXPECT_EQ(quantize(trained_run(), folder / "q", "int3").code, 2);
  EXPECT_THAT(entries(folder.path()), ::testing::IsEmpty());
}

}  // namespace
}  // namespace lamina::cli
