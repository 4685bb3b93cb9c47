// GGUF files: metadata and tensors in place, names as at Hugging Face, and the words of the
// refusals.
#include "io/gguf_file.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/json.h"
#include "io/gguf_config.h"
#include "io/stored_weight.h"
#include "support/expect_error.h"
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
                    path + ": 'a' is no whole number of 64 bits");
  EXPECT_USER_ERROR(static_cast<void>(file.integer("b")), ExitCode::checkpoint,
                    path + ": 'b' is no whole number of 64 bits");
  EXPECT_USER_ERROR(static_cast<void>(file.texts("a")), ExitCode::checkpoint,
                    path + ": 'a' is one value; expected a list");
}

TEST(Gguf, FaultsOfTheBeginAreNamed) {
  const std::string damaged = "\n  the file is damaged or cut short: download it again";
  GgufBuilder old, many_tensors, many_keys;
  old.version = 1;
  many_tensors.extra_tensors = std::int64_t{1} << 62;
  many_keys.extra_keys = 1 << 20;
  EXPECT_EQ(gguf_error("GGUF"),
            "m.gguf: the version at byte 4 takes 4 bytes, but 0 follow" + damaged);
  EXPECT_EQ(gguf_error(old.bytes()),
            "m.gguf: is of GGUF version 1; lamina reads 2 and 3" + damaged);
  EXPECT_EQ(gguf_error("GGUF" + std::string("\0\0\0\3", 4)),
            "m.gguf: is of GGUF version 50331648; lamina reads 2 and 3 (is it of a big-endian "
            "machine?)" +
                damaged);
  EXPECT_EQ(
      gguf_error(many_tensors.bytes()),
      "m.gguf: is said to have 4611686018427387904 tensors and 0 keys, more than its 32 bytes "
      "hold" +
          damaged);
  EXPECT_EQ(
      gguf_error(many_keys.bytes()),
      "m.gguf: is said to have 0 tensors and 1048576 keys, more than its 32 bytes hold" + damaged);
  EXPECT_EQ(gguf_error("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
            "m.gguf: is no GGUF file: it does not begin with \"GGUF\"\n"
            "  this looks like a Git LFS pointer: fetch the file itself with `git lfs pull`");
}

TEST(Gguf, FaultsOfKeysAreNamed) {
  const std::string huge = raw_bytes(~std::uint64_t{0});
  const auto says = [](const GgufBuilder& file, std::string_view part) {
    EXPECT_THAT(gguf_error(file.bytes()), ::testing::HasSubstr(part));
  };
  says(GgufBuilder().set("a", 1u).set("a", 2u), "'a' is there twice; each key is there once");
  says(GgufBuilder().set("", 1u), "key 0 has no name");
  says(GgufBuilder().raw("a", 13, ""), "the value of 'a' is of the type 13; 0 to 12 are known");
  says(GgufBuilder().raw("a", testing::kGgufText, huge),
       "the value of 'a' at byte 37 is said to be "
       "18446744073709551615 bytes long");
  says(GgufBuilder().raw("a", testing::kGgufList, raw_bytes(testing::kGgufU32) + huge),
       "the value of 'a' is said to have 18446744073709551615 elements");
  says(GgufBuilder().raw("a", testing::kGgufList, raw_bytes(testing::kGgufList) + huge),
       "is a list of lists, which no model has");
  says(GgufBuilder().set("general.alignment", 24u),
       "'general.alignment' must be a power of two up to 16777216");
}

TEST(Gguf, FaultsOfTensorsAreNamed) {
  const std::int64_t huge = std::int64_t{1} << 62;
  const auto says = [](const GgufBuilder& file, std::string_view part) {
    EXPECT_THAT(gguf_error(file.bytes()), ::testing::HasSubstr(part));
  };
  says(GgufBuilder().tensor("w", {4}, 0, four_floats()).tensor("w", {4}, 0, four_floats()),
       "tensor 'w' is there twice");
  says(GgufBuilder().tensor("w", {1, 1, 1, 1, 1}, 0, "abcd"), "tensor 'w': has 5 dims; at most 4");
  says(GgufBuilder().tensor("w", {huge, huge}, 0, ""), "tensor 'w': has a negative dim, or more");
  says(GgufBuilder().tensor("w", {-1}, 0, ""), "tensor 'w': has a negative dim, or more");
  says(GgufBuilder().tensor("w", {huge}, 0, ""), "tensor 'w': needs more than 2^63 bytes");
  says(GgufBuilder().tensor("w", {48}, 8, std::string(51, 'x')),
       "tensor 'w': has rows of 48 values in Q8_0, which come in blocks of 32");
  says(GgufBuilder().tensor("w", {256}, 17, ""),
       "tensor 'w': is stored as IQ2_XS, which lamina does not read\n  it reads F32, F16, BF16, "
       "Q4_0");
  says(GgufBuilder().tensor("w", {256}, 999, ""), "tensor 'w': is stored as type 999");
  says(GgufBuilder().tensor("w", {16}, 0, four_floats()),
       "tensor 'w': takes 64 bytes from byte 0 of the data on, but the file has only 32");
  says(GgufBuilder().tensor_at(1, "w", {4}, 0, four_floats()),
       "tensor 'w': begins at byte 1 of the data, which is no multiple of the alignment 32");
  says(GgufBuilder().tensor("v", {4}, 0, four_floats()).tensor_at(0, "w", {4}, 0, four_floats()),
       "begins at byte 0 of the data, but the tensor before it ends at 16");
}

// Whatever the place where it is cut, a file is refused, not read past its end.
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
}

TEST(Gguf, ExpertsWithoutValuesAreRefusedHoweverManyThereAre) {
  TempDir dir;
  const std::string path = dir.write(
      "m.gguf", GgufBuilder().tensor("blk.0.ffn_up_exps.weight", {2, 0, 100'000'000}, {}).bytes());
  EXPECT_ERROR_SAYS(WeightFiles{path}, ExitCode::checkpoint,
                    "tensor 'blk.0.ffn_up_exps.weight' is [100000000, 0, 2]; each expert of a "
                    "stack has values");
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
      .set("tiny.attention.head_count", 2u)
      .set("tiny.attention.layer_norm_rms_epsilon", 1e-6f)
      .set("tiny.rope.freq_base", 10000.f)
      .set("tiny.expert_count", 0u)
      .set("tiny.secret", 7u)
      .tensor("token_embd.weight", {8, 3}, std::vector<float>(24));
}

std::string config_of(const GgufBuilder& builder) {
  TempDir dir;
  const GgufFile file(dir.write("m.gguf", builder.bytes()));
  return gguf_config(file, "tiny_lm", "from_gguf");
}

TEST(GgufConfig, SaysWhatConfigJsonSays) {
  const JsonDocument config = JsonDocument::parse(config_of(tiny_model()), "config");
  const JsonValue root = config.root();
  EXPECT_EQ(root.at("model_type").as_string(), "tiny_lm");
  EXPECT_TRUE(root.at("from_gguf").as_bool());
  EXPECT_EQ(root.at("num_hidden_layers").as_int64(), 2);
  EXPECT_EQ(root.at("rms_norm_eps").as_double(), 1e-6);
  EXPECT_EQ(root.at("vocab_size").as_int64(), 3);
  EXPECT_TRUE(root.at("tie_word_embeddings").as_bool());
  EXPECT_FALSE(root.find("num_experts"));
  EXPECT_EQ(root.at("tiny.secret").as_int64(), 7);  // unknown: told, not dropped
}

TEST(GgufConfig, KnowsTheBandsOfRotaryFactors) {
  // Divisors for theta 10000 and heads of 4: wavelengths 2 pi and 200 pi are below 8192 / 4.
  GgufBuilder none = tiny_model();
  none.tensor("rope_freqs.weight", {2}, std::vector<float>{1, 1});
  EXPECT_FALSE(JsonDocument::parse(config_of(none), "config").root().find("rope_scaling"));
  GgufBuilder odd = tiny_model();
  odd.tensor("rope_freqs.weight", {2}, std::vector<float>{1, 3});
  EXPECT_ERROR_SAYS(config_of(odd), ExitCode::checkpoint,
                    "tensor 'rope_freqs.weight' divides rotary frequency 1 by 3; the scaling of "
                    "published models by factor 3 divides it by 1\n"
                    "  use the safetensors files of the same model");
}

TEST(GgufConfig, RefusesWhatHoldsNoWholeModel) {
  EXPECT_ERROR_SAYS(config_of(GgufBuilder()), ExitCode::checkpoint,
                    "it has no 'general.architecture'");
  EXPECT_ERROR_SAYS(config_of(GgufBuilder().set("general.architecture", "tiny")),
                    ExitCode::checkpoint, "has no tensor 'token_embd.weight'");
  EXPECT_ERROR_SAYS(config_of(tiny_model().set("split.count", 3u)), ExitCode::checkpoint,
                    "is one of 3 parts of a model");
  EXPECT_ERROR_SAYS(config_of(tiny_model().set("tiny.attention.value_length", 6u)),
                    ExitCode::checkpoint, "is 6, but keys are 4 wide");
}

TEST(GgufIn, FindsTheOneFileOfADirectory) {
  TempDir dir;
  EXPECT_EQ(gguf_in(dir.path()), "");
  const std::string file = dir.write("a.gguf", "GGUF");
  EXPECT_EQ(gguf_in(dir.path()), file);
  EXPECT_EQ(gguf_in(file), file);
  EXPECT_EQ(gguf_in(dir.write("model.bin", "GGUFxxxx")), dir / "model.bin");
  dir.write("b.gguf", "GGUF");
  EXPECT_ERROR_SAYS(gguf_in(dir.path()), ExitCode::checkpoint,
                    "holds 2 GGUF files; which one?\n  name the file itself, eg " + file);
  dir.write("config.json", "{}");
  EXPECT_EQ(gguf_in(dir.path()), "");
}

}  // namespace
}  // namespace lamina::io
