// GGUF files: metadata and tensors in place, Hugging Face names, and the messages of refusals.
#include "io/gguf_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "core/json.h"
#include "io/gguf_config.h"
#include "io/gguf_end_tokens.h"
#include "io/gguf_model.h"
#include "io/stored_weight.h"
#include "support/expect_error.h"
#include "support/few_descriptors.h"
#include "support/gguf_builder.h"
#include "support/temp_dir.h"

namespace lamina::io {
namespace {

using testing::gguf_string;
using testing::GgufBuilder;
using testing::raw_bytes;
using testing::TempDir;

std::string gguf_error(const std::string& bytes) {
  TempDir dir;
  const std::string path = dir.write("m.gguf", bytes);
  try {
    GgufFile file(path);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ExitCode::checkpoint);
    return std::string(e.what()).substr(dir.path().size() + 1);
  }
  return "accepted";
}

std::string four_floats() { return std::string(16, '\0'); }

TEST(Gguf, Example) {
  TempDir dir;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::string path =
      dir.write("m.gguf", GgufBuilder()
                              .set("general.architecture", "tiny")
                              .set("tiny.block_count", 2u)
                              .set("tiny.names", std::vector<std::string>{"a", "b"})
                              .tensor("w", {3, 2}, values)
                              .bytes());
  const GgufFile file(path);
  EXPECT_EQ(file.text("general.architecture"), "tiny");
  EXPECT_EQ(file.integer("tiny.block_count"), 2);
  EXPECT_EQ(file.texts("tiny.names"), (std::vector<std::string_view>{"a", "b"}));
  EXPECT_EQ(file.number("none"), std::nullopt);
  const GgufTensor& w = *file.find_tensor("w");
  EXPECT_EQ(w.shape, Shape({2, 3}));
  EXPECT_EQ(std::memcmp(w.bytes.data(), values.data(), w.bytes.size()), 0);
}

TEST(Gguf, ValuesOfOtherTypesAreRefusedByKey) {
  TempDir dir;
  const std::string path =
      dir.write("m.gguf", GgufBuilder().set("a", "text").set("b", 1.5f).bytes());
  const GgufFile file(path);
  EXPECT_USER_ERROR(static_cast<void>(file.integer("a")), ExitCode::checkpoint,
                    path + ": 'a' is not a 64-bit integer");
  EXPECT_USER_ERROR(static_cast<void>(file.integer("b")), ExitCode::checkpoint,
                    path + ": 'b' is not a 64-bit integer");
  EXPECT_USER_ERROR(static_cast<void>(file.texts("a")), ExitCode::checkpoint,
                    path + ": 'a' is one value; expected a list");
}

TEST(Gguf, FaultsOfTheBeginAreNamed) {
  const std::string damaged =
      "\n"
      "  the file is damaged or truncated: download it again";
  GgufBuilder old, many_tensors, many_keys;
  old.version = 1;
  many_tensors.extra_tensors = std::int64_t{1} << 62;
  many_keys.extra_keys = 1 << 20;
  EXPECT_EQ(gguf_error("GGUF"),
            "m.gguf: the version at byte 4 needs 4 bytes, but only 0 remain" + damaged);
  EXPECT_EQ(gguf_error(old.bytes()),
            "m.gguf: has GGUF version 1; expected 2 or 3\n"
            "  convert the model again with a current program");
  for (const char version : {'\2', '\3'})
    EXPECT_EQ(gguf_error("GGUF" + std::string("\0\0\0", 3) + version),
              "m.gguf: is a big-endian GGUF file; expected a little-endian one\n"
              "  convert it with `gguf-convert-endian FILE little` of the Python package gguf, or "
              "download the little-endian file");
  EXPECT_EQ(gguf_error("GGUF" + std::string("\0\0\1\0", 4)),
            "m.gguf: has GGUF version 65536; expected 2 or 3" + damaged);
  EXPECT_EQ(
      gguf_error(many_tensors.bytes()),
      "m.gguf: claims to have 4611686018427387904 tensors and 0 keys, which do not fit into its 32 "
      "bytes" +
          damaged);
  EXPECT_EQ(gguf_error(many_keys.bytes()),
            "m.gguf: claims to have 0 tensors and 1048576 keys, which do not fit into its 32 "
            "bytes" +
                damaged);
  EXPECT_EQ(gguf_error("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
            "m.gguf: is not a GGUF file: it does not begin with \"GGUF\"\n"
            "  this looks like a Git LFS pointer: fetch the file itself with `git lfs pull`");
}

TEST(Gguf, FaultsOfKeysAreNamed) {
  const std::string huge = raw_bytes(~std::uint64_t{0});
  const auto says = [](const GgufBuilder& file, std::string_view part) {
    EXPECT_THAT(gguf_error(file.bytes()), ::testing::HasSubstr(part));
  };
  says(GgufBuilder().set("a", 1u).set("a", 2u), "'a' appears twice; every key must be unique");
  says(GgufBuilder().set("", 1u), "key 0 has no name");
  says(GgufBuilder().raw("a", 13, ""),
       "the value of 'a' has type 13; expected a type from 0 to "
       "12");
  says(GgufBuilder().raw("a", testing::kGgufText, huge),
       "the value of 'a' at byte 37 has a length of "
       "18446744073709551615 bytes");
  says(GgufBuilder().raw("a", testing::kGgufList, raw_bytes(testing::kGgufU32) + huge),
       "the value of 'a' has a length of 18446744073709551615 elements");
  says(GgufBuilder().raw("a", testing::kGgufList, raw_bytes(testing::kGgufList) + huge),
       "is a list of lists, which is not supported");
  says(GgufBuilder().set("general.alignment", 24u),
       "'general.alignment' must be a power of two up to 16777216");
}

TEST(Gguf, FaultsOfTensorsAreNamed) {
  const std::int64_t huge = std::int64_t{1} << 62;
  const auto says = [](const GgufBuilder& file, std::string_view part) {
    EXPECT_THAT(gguf_error(file.bytes()), ::testing::HasSubstr(part));
  };
  says(GgufBuilder().tensor("w", {4}, 0, four_floats()).tensor("w", {4}, 0, four_floats()),
       "tensor 'w' appears twice");
  says(GgufBuilder().tensor("w", {1, 1, 1, 1, 1}, 0, "abcd"),
       "tensor 'w': has 5 dims; the maximum is 4");
  says(GgufBuilder().tensor("w", {huge, huge}, 0, ""), "tensor 'w': has a negative dim, or more");
  says(GgufBuilder().tensor("w", {-1}, 0, ""), "tensor 'w': has a negative dim, or more");
  says(GgufBuilder().tensor("w", {huge}, 0, ""), "tensor 'w': needs more than 2^63 bytes");
  says(GgufBuilder().tensor("w", {48}, 8, std::string(51, 'x')),
       "tensor 'w': has rows of 48 values in Q8_0, whose blocks have 32");
  says(GgufBuilder().tensor("w", {256}, 17, ""),
       "tensor 'w': is stored as IQ2_XS, which lamina cannot read\n"
       "  it reads F32, F16, BF16, F64, Q4_0");
  says(GgufBuilder().tensor("w", {256}, 40, ""), "tensor 'w': is stored as NVFP4, which");
  says(GgufBuilder().tensor("w", {256}, 999, ""), "tensor 'w': is stored as type 999");
  says(GgufBuilder().tensor("w", {16}, 0, four_floats()),
       "tensor 'w': needs 64 bytes from byte 0 of the data, but the file has only 32");
  says(GgufBuilder().tensor_at(1, "w", {4}, 0, four_floats()),
       "tensor 'w': begins at byte 1 of the data, which is not a multiple of the alignment 32");
  says(GgufBuilder().tensor("v", {4}, 0, four_floats()).tensor_at(0, "w", {4}, 0, four_floats()),
       "begins at byte 0 of the data, but tensor 'v' ends at 16");
}

TEST(Gguf, IntegersAreNoWeights) {
  TempDir dir;
  const WeightFiles files(
      dir.write("m.gguf", GgufBuilder().tensor("w", {4, 4}, 24, std::string(16, 'x')).bytes()));
  EXPECT_ERROR_SAYS(StoredWeight(files, "w"), ExitCode::checkpoint,
                    "tensor 'w' has element type i8; expected f32, bf16, f16 or f64\n"
                    "  use a file of the same model with weights of such a type or in blocks");
}

// A truncated file is refused at every length, and not read past its end.
TEST(Gguf, EveryTruncationIsRefused) {
  const std::string whole = GgufBuilder()
                                .set("general.architecture", "tiny")
                                .set("list", std::vector<std::string>{"a", "bc"})
                                .tensor("w", {8}, 0, std::string(32, 'x'))
                                .bytes();
  ASSERT_EQ(gguf_error(whole), "accepted");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(gguf_error(whole.substr(0, size)), "accepted") << size;
}

TEST(Gguf, TensorsHaveTheNamesOfHuggingFace) {
  TempDir dir;
  const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::string path =
      dir.write("m.gguf", GgufBuilder()
                              .tensor("token_embd.weight", {4, 2}, values)
                              .tensor("blk.11.attn_q.bias", {8}, values)
                              .tensor("blk.0.ffn_norm.weight", {8}, values)
                              .tensor("blk.1.ffn_norm.weight", {8}, values)
                              .tensor("blk.1.post_ffw_norm.weight", {8}, values)
                              .tensor("blk.0.ffn_up_exps.weight", {2, 2, 2}, values)
                              .tensor("rope_freqs.weight", {8}, values)
                              .tensor("something.else", {8}, values)
                              .bytes());
  const WeightFiles files(path);
  EXPECT_EQ(files.names(), (std::vector<std::string_view>{
                               "model.embed_tokens.weight", "model.layers.11.self_attn.q_proj.bias",
                               "model.layers.0.post_attention_layernorm.weight",
                               "model.layers.1.pre_feedforward_layernorm.weight",
                               "model.layers.1.post_feedforward_layernorm.weight",
                               "model.layers.0.mlp.experts.0.up_proj.weight",
                               "model.layers.0.mlp.experts.1.up_proj.weight", "something.else"}));
  const TensorView second = files.tensor("model.layers.0.mlp.experts.1.up_proj.weight");
  EXPECT_EQ(second.shape, Shape({2, 2}));
  EXPECT_EQ(std::memcmp(second.bytes.data(), values.data() + 4, 16), 0);
  EXPECT_EQ(files.path_of("something.else"), path);
  // Also found by their own names.
  EXPECT_TRUE(files.contains("blk.0.ffn_up_exps.weight"));
  EXPECT_EQ(files.tensor("blk.0.ffn_up_exps.weight").shape, Shape({2, 2, 2}));
  EXPECT_EQ(files.stored_name("model.layers.0.mlp.experts.1.up_proj.weight"),
            "blk.0.ffn_up_exps.weight");
}

TEST(Gguf, ExpertsWithoutValuesAreRefusedHoweverManyThereAre) {
  TempDir dir;
  const std::string path = dir.write(
      "m.gguf", GgufBuilder().tensor("blk.0.ffn_up_exps.weight", {2, 0, 100'000'000}, {}).bytes());
  EXPECT_ERROR_SAYS(WeightFiles{path}, ExitCode::checkpoint,
                    "tensor 'blk.0.ffn_up_exps.weight' is [100000000, 0, 2]; expected values for "
                    "each expert");
}

// Q8_0: a scale of 16 bits and 32 numbers of 8.
TEST(Gguf, BlocksAreDecodedFromAnyElementOn) {
  TempDir dir;
  std::string blocks;
  for (int block = 0; block < 4; ++block) {
    blocks += raw_bytes<std::uint16_t>(0x3c00);  // 1
    for (int i = 0; i < 32; ++i) blocks += static_cast<char>(block * 32 + i - 64);
  }
  const WeightFiles files(
      dir.write("m.gguf", GgufBuilder().tensor("w", {64, 2}, 8, blocks).bytes()));
  const StoredWeight weight(files, "w");
  EXPECT_EQ(weight.shape(), Shape({2, 64}));
  EXPECT_FALSE(weight.is_plain());
  std::vector<float> all(128), wanted(128);
  std::iota(wanted.begin(), wanted.end(), -64.0f);
  weight.decode(0, 1, all);
  EXPECT_EQ(all, wanted);
  for (std::int64_t first : {0, 1, 31, 33})
    for (std::int64_t stride : {1, 3, 40}) {
      std::vector<float> part(3);
      weight.decode(first, stride, part);
      for (std::size_t i = 0; i < part.size(); ++i)
        EXPECT_EQ(part[i],
                  wanted[static_cast<std::size_t>(first) + i * static_cast<std::size_t>(stride)]);
    }
}

GgufBuilder tiny_model() {
  return GgufBuilder()
      .set("general.architecture", "tiny")
      .set("tiny.block_count", 2u)
      .set("tiny.embedding_length", 8u)
      .set("tiny.context_length", 64u)
      .set("tiny.attention.head_count", 2u)
      .set("tiny.attention.layer_norm_rms_epsilon", 1e-6f)
      .set("tiny.rope.freq_base", 10000.f)
      .set("tiny.expert_count", 0u)
      .set("tiny.secret", 7u)
      .tensor("token_embd.weight", {8, 3}, std::vector<float>(24));
}

std::string config_of(const GgufBuilder& builder) {
  TempDir dir;
  const GgufModel model(dir.write("m.gguf", builder.bytes()));
  return gguf_config(model, "tiny_lm", "from_gguf").json;
}

TEST(GgufConfig, HasTheKeysOfConfigJson) {
  const JsonDocument config = JsonDocument::parse(config_of(tiny_model()), "config");
  const JsonValue root = config.root();
  EXPECT_EQ(root.at("model_type").as_string(), "tiny_lm");
  EXPECT_TRUE(root.at("from_gguf").as_bool());
  EXPECT_EQ(root.at("num_hidden_layers").as_int64(), 2);
  EXPECT_EQ(root.at("rms_norm_eps").as_double(), 1e-6);
  EXPECT_EQ(root.at("vocab_size").as_int64(), 3);
  EXPECT_TRUE(root.at("tie_word_embeddings").as_bool());
  EXPECT_FALSE(root.find("num_experts"));
  EXPECT_EQ(root.at("tiny.secret").as_int64(), 7);  // unknown: reported, not dropped
}

TEST(GgufConfig, KnowsTheBandsOfRotaryFactors) {
  // Divisors for theta 10000 and heads of 4: wavelengths 2 pi and 200 pi are below 8192 / 4.
  GgufBuilder none = tiny_model();
  none.tensor("rope_freqs.weight", {2}, std::vector<float>{1, 1});
  EXPECT_FALSE(JsonDocument::parse(config_of(none), "config").root().find("rope_scaling"));
  GgufBuilder odd = tiny_model();
  odd.tensor("rope_freqs.weight", {2}, std::vector<float>{1, 3});
  EXPECT_ERROR_SAYS(config_of(odd), ExitCode::checkpoint,
                    "tensor 'rope_freqs.weight' divides rotary frequency 1 by 3, but published "
                    "models scaled by factor 3 divide it by 1\n"
                    "  use the safetensors files of the same model");
}

TEST(GgufConfig, HasTheWordsOfConfigJson) {
  const auto config = [](const GgufBuilder& builder) {
    return JsonDocument::parse(config_of(builder), "config");
  };
  const std::vector<std::uint32_t> flags = {1, 0};
  const JsonDocument words = config(tiny_model()
                                        .set("tiny.attention.sliding_window_pattern", flags)
                                        .set("tiny.expert_gating_func", 2u));
  EXPECT_EQ(words.root().at("scoring_func").as_string(), "sigmoid");
  std::vector<std::string> types;
  for (JsonValue type : words.root().at("layer_types").elements())
    types.emplace_back(type.as_string());
  EXPECT_EQ(types, (std::vector<std::string>{"sliding_attention", "full_attention"}));
  const JsonDocument period = config(tiny_model().set("tiny.attention.sliding_window_pattern", 6u));
  EXPECT_EQ(period.root().at("sliding_window_pattern").as_int64(), 6);
  EXPECT_ERROR_SAYS(config_of(tiny_model().set("tiny.expert_gating_func", 3u)),
                    ExitCode::checkpoint,
                    "'tiny.expert_gating_func' is 3; expected 1 (softmax) or 2 (sigmoid)");
  const JsonDocument yarn = config(tiny_model()
                                       .set("tiny.rope.scaling.type", "yarn")
                                       .set("tiny.rope.scaling.yarn_attn_factor", 1.5f)
                                       .set("tiny.rope.scaling.yarn_log_multiplier", 0.1f));
  const JsonValue scaling = yarn.root().at("rope_scaling");
  EXPECT_EQ(scaling.at("factor").as_double(), 1);  // the file has none
  EXPECT_EQ(scaling.at("attention_factor").as_double(), 1.5);
  EXPECT_FLOAT_EQ(static_cast<float>(scaling.at("mscale").as_double()), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(scaling.at("mscale_all_dim").as_double()), 1);
}

// If a family has a key under its GGUF name, the key has no other meaning.
TEST(GgufConfig, KeepsTheNamesThatAFamilyKnows) {
  TempDir dir;
  const GgufModel model(
      dir.write("m.gguf", tiny_model().set("tiny.attention.value_length", 6u).bytes()));
  const JsonDocument config = JsonDocument::parse(
      gguf_config(model, "tiny_lm", "from_gguf",
                  [](std::string_view key) {
                    return key == "tiny.block_count" || key == "tiny.attention.value_length";
                  })
          .json,
      "config");
  EXPECT_EQ(config.root().at("tiny.block_count").as_int64(), 2);
  EXPECT_EQ(config.root().at("tiny.attention.value_length").as_int64(), 6);
  EXPECT_FALSE(config.root().find("num_hidden_layers"));
}

// llama.cpp has these defaults for every architecture; families may have others.
TEST(GgufConfig, MissingKeysHaveTheDefaultsOfTheFormat) {
  const auto config = [](GgufBuilder builder) {
    builder.set("general.architecture", "bare")
        .set("bare.block_count", 2u)
        .set("bare.embedding_length", 8u)
        .set("bare.context_length", 64u)
        .set("bare.attention.head_count", 2u)
        .tensor("token_embd.weight", {8, 3}, std::vector<float>(24));
    const TempDir dir;
    const GgufModel model(dir.write("m.gguf", builder.bytes()));
    return JsonDocument::parse(gguf_config(model, "bare_lm", "",
                                           [](std::string_view key) {
                                             return key == "rope_theta" ||
                                                    key == "num_key_value_heads" ||
                                                    key == "head_dim";
                                           })
                                   .json,
                               "config");
  };
  const JsonDocument bare = config({});
  EXPECT_EQ(bare.root().at("rope_theta").as_double(), 10000);
  EXPECT_EQ(bare.root().at("num_key_value_heads").as_int64(), 2);
  EXPECT_EQ(bare.root().at("head_dim").as_int64(), 4);
  const JsonDocument given = config(GgufBuilder()
                                        .set("bare.rope.freq_base", 5.f)
                                        .set("bare.attention.head_count_kv", 1u)
                                        .set("bare.attention.key_length", 6u));
  EXPECT_EQ(given.root().at("rope_theta").as_double(), 5);
  EXPECT_EQ(given.root().at("num_key_value_heads").as_int64(), 1);
  EXPECT_EQ(given.root().at("head_dim").as_int64(), 6);
  const JsonDocument latent = config(GgufBuilder()
                                         .set("bare.attention.kv_lora_rank", 4u)
                                         .set("bare.attention.key_length", 6u)
                                         .set("bare.attention.value_length", 4u)
                                         .set("bare.rope.dimension_count", 2u));
  EXPECT_FALSE(latent.root().find("num_key_value_heads"));
  EXPECT_FALSE(latent.root().find("head_dim"));
}

TEST(GgufConfig, RefusesFilesWithoutAWholeModel) {
  EXPECT_ERROR_SAYS(config_of(GgufBuilder()), ExitCode::checkpoint,
                    "has no 'general.architecture'");
  EXPECT_ERROR_SAYS(config_of(GgufBuilder().set("general.architecture", "tiny")),
                    ExitCode::checkpoint, "has no tensor 'token_embd.weight'");
  EXPECT_ERROR_SAYS(config_of(GgufBuilder()
                                  .set("general.architecture", "tiny")
                                  .set("tiny.block_count", 2u)
                                  .tensor("token_embd.weight", {8, 3}, std::vector<float>(24))),
                    ExitCode::checkpoint, "'tiny.embedding_length' is missing");
  EXPECT_ERROR_SAYS(config_of(tiny_model().set("tiny.attention.value_length", 6u)),
                    ExitCode::checkpoint, "is 6, but keys are 4 wide");
}

// Part `number` (from 1) of `count`, with one tensor.
GgufBuilder part_of_model(std::uint32_t number, std::uint32_t count, std::uint32_t tensors) {
  return (number == 1 ? tiny_model()
                      : GgufBuilder().tensor("output.weight", {8, 3}, std::vector<float>(24)))
      .set("split.no", number - 1)
      .set("split.count", count)
      .set("split.tensors.count", tensors);
}

struct SplitModel {
  TempDir dir;
  std::string first = dir.write("m-00001-of-00002.gguf", part_of_model(1, 2, 2).bytes());
  std::string second = dir.write("m-00002-of-00002.gguf", part_of_model(2, 2, 2).bytes());
};

TEST(GgufParts, AreOneModel) {
  SplitModel split;
  for (const std::string& path : {split.first, split.second, split.dir.path()}) {
    EXPECT_EQ(gguf_in(path), split.first);
    const WeightFiles files(path);
    EXPECT_EQ(files.names(),
              (std::vector<std::string_view>{"model.embed_tokens.weight", "lm_head.weight"}));
    EXPECT_EQ(files.path_of("lm_head.weight"), split.second);
    const JsonDocument config =
        JsonDocument::parse(gguf_config(*files.gguf(), "tiny_lm", "from_gguf").json, "config");
    EXPECT_FALSE(config.root().at("tie_word_embeddings").as_bool());  // set by the second part
  }
}

TEST(GgufParts, FaultsNameThePart) {
  const auto says = [](const std::string& path, const std::string& file, std::string_view part) {
    EXPECT_ERROR_SAYS(static_cast<void>(GgufModel(path)), ExitCode::checkpoint,
                      file + ": " + std::string(part));
  };
  SplitModel without_second;
  std::filesystem::remove(without_second.second);
  says(without_second.first, without_second.second,
       "is missing; it is part 2 of 2 of a model\n"
       "  download the missing file into the same directory");
  SplitModel without_first;
  std::filesystem::remove(without_first.first);
  says(without_first.second, without_first.first, "is missing; it is part 1 of 2 of a model");
  EXPECT_ERROR_SAYS(gguf_in(without_first.dir.path()), ExitCode::checkpoint,
                    without_first.first + ": is missing; it is part 1 of 2 of a model");
  SplitModel other;
  other.dir.write("m-00002-of-00002.gguf", part_of_model(3, 4, 2).bytes());
  says(other.first, other.second,
       "claims to be part 3 of 4; expected part 2 of 2\n"
       "  download all parts of the model again");
  SplitModel fewer;
  fewer.dir.write("m-00001-of-00002.gguf", part_of_model(1, 2, 3).bytes());
  says(fewer.first, fewer.first, "claims that its 2 parts have 3 tensors, but they have 2");
  TempDir renamed;
  const std::string path = renamed.write("m.gguf", part_of_model(1, 2, 2).bytes());
  says(path, path, "is part 1 of 2 of a model, but is not named NAME-00001-of-00002.gguf");
}

TEST(GgufIn, FindsTheOneFileOfADirectory) {
  TempDir dir;
  EXPECT_EQ(gguf_in(dir.path()), "");
  const std::string file = dir.write("a.gguf", "GGUF");
  EXPECT_EQ(gguf_in(dir.path()), file);
  EXPECT_EQ(gguf_in(file), file);
  EXPECT_EQ(gguf_in(dir.write("model.bin", "GGUFxxxx")), dir / "model.bin");
  {
    const testing::FewDescriptors none(0);
    EXPECT_ERROR_SAYS(gguf_in(dir / "model.bin"), ExitCode::checkpoint,
                      "model.bin: cannot be read: too many open files");
  }
  dir.write("b.gguf", "GGUF");
  EXPECT_ERROR_SAYS(gguf_in(dir.path()), ExitCode::checkpoint,
                    "contains 2 models in GGUF files; expected one\n"
                    "  give the path of one file, eg " +
                        file);
  dir.write("config.json", "{}");
  EXPECT_EQ(gguf_in(dir.path()), "");
}

using Ids = std::vector<std::int64_t>;

Ids end_tokens(const GgufBuilder& builder) {
  const TempDir dir;
  return gguf_end_tokens(GgufFile(dir.write("m.gguf", builder.bytes())));
}

GgufBuilder with_tokens(const std::vector<std::string>& tokens) {
  return GgufBuilder().set("tokenizer.ggml.tokens", tokens);
}

// As in llama.cpp.
TEST(GgufEndTokens, ComeFromKeysAndFromTheTextOfTokens) {
  GgufBuilder gguf = with_tokens({"a", "<|endoftext|>", "<|end|>", "<|user|>", "</s>"});
  EXPECT_EQ(end_tokens(gguf), (Ids{1, 2}));
  EXPECT_EQ(end_tokens(GgufBuilder(gguf).set("tokenizer.ggml.eos_token_id", 2u)), (Ids{2, 1}));
  EXPECT_EQ(end_tokens(GgufBuilder(gguf).set("tokenizer.ggml.eot_token_id", 0u)), (Ids{0, 1, 2}));
  EXPECT_EQ(end_tokens(with_tokens({"<eos>", "<end_of_turn>", "<end_of_turn>"})), (Ids{0, 2}))
      << "the last of equal tokens";
  EXPECT_EQ(end_tokens(with_tokens({"a", "b"})), Ids{});
  EXPECT_EQ(end_tokens(GgufBuilder()), Ids{});
}

TEST(GgufEndTokens, ARoleHasOneTokenByItsText) {
  const GgufBuilder gguf = with_tokens({"[PAD]", "<|fim_pad|>", "<|file_sep|>", "x"});
  EXPECT_EQ(end_tokens(gguf), (Ids{1, 2}));
  EXPECT_EQ(end_tokens(GgufBuilder(gguf).set("tokenizer.ggml.fim_pad_token_id", 3u)), (Ids{3, 2}));
  EXPECT_EQ(end_tokens(GgufBuilder(gguf).set("tokenizer.ggml.fim_pad_token_id", 0xffffffffu)),
            (Ids{1, 2}));
}

// "<|end|>" ends a message of an answer there, and other messages follow.
TEST(GgufEndTokens, TheEndOfAPartOfATurnIsNone) {
  EXPECT_EQ(end_tokens(with_tokens({"<|end|>", "<|return|>", "<|call|>"})), (Ids{1, 2}));
  EXPECT_EQ(end_tokens(with_tokens({"<|end|>", "<|flush|>", "<|calls|>"})), (Ids{1, 2}));
  EXPECT_EQ(end_tokens(with_tokens({"<|end|>", "<|return|>"})), (Ids{0, 1}));
  EXPECT_EQ(end_tokens(with_tokens({"<|end|>", "<|return|>", "<|call|>"})
                           .set("tokenizer.ggml.eos_token_id", 0u)),
            (Ids{0, 1, 2}));
}

TEST(GgufEndTokens, TheDefaultOfAVocabularyIsForFilesWithoutAKey) {
  const auto with = [](const char* kind, std::vector<std::uint32_t> types) {
    return with_tokens({"x", "y", "z", "<|im_end|>"})
        .set("tokenizer.ggml.model", kind)
        .set("tokenizer.ggml.token_type", types);
  };
  EXPECT_EQ(end_tokens(with("llama", {2, 3, 3, 3})), (Ids{2, 3}));
  EXPECT_EQ(end_tokens(with("t5", {3, 3, 2, 3})), (Ids{1, 3}));
  EXPECT_EQ(end_tokens(with("gpt2", {3, 3, 3, 3})), (Ids{3}));
  EXPECT_EQ(end_tokens(with("llama", {2, 3, 1, 3})), (Ids{3}));
  EXPECT_EQ(end_tokens(with("llama", {2, 3, 3, 3}).set("tokenizer.ggml.eos_token_id", 1u)),
            (Ids{1, 3}));
}

}  // namespace
}  // namespace lamina::io
