// lamina quantize --calibrate and --target-bits, and lamina eval --kv-dtype.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "cli/spoilt_model.h"
#include "cli/trained_run.h"
#include "core/json.h"
#include "io/packed_weight.h"
#include "io/weight_files.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kText = LAMINA_SOURCE_DIR "/docs/glossary.md";

Finished quantize_with(const std::string& to, std::vector<std::string> more,
                       const std::string& from = trained_run()) {
  more.insert(more.begin(), {"quantize", from, "--to", to});
  return lamina_program(more);
}

double number_of(const std::vector<std::string>& words, const char* member) {
  const Finished result = lamina_program(words);
  EXPECT_EQ(result.code, 0) << result.err;
  if (result.code != 0) return 0;
  return JsonDocument::parse(result.out, "json").root().at(member).as_double();
}

double mean_kl(const std::string& model, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"eval",        "-m",      model,     "--against",
                                    trained_run(), "--data",  kText,     "--tokens",
                                    "32",          "--dtype", "float32", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return number_of(words, "mean_kl");
}

TEST(QuantizeCalibrated, DivergesLessThanNearestNumbers) {
  const TempDir folder;
  for (const std::string format : {"int4", "mxfp4"}) {
    const std::string near = folder / format, calibrated = folder / (format + "-calibrated");
    ASSERT_EQ(quantize_with(near, {"--format", format}).code, 0);
    const Finished result = quantize_with(calibrated, {"--format", format, "--calibrate", kText});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_LT(mean_kl(calibrated), .8 * mean_kl(near)) << format;
  }
}

TEST(QuantizeCalibrated, HasTheSameBytesForAnyThreads) {
  const TempDir folder;
  for (const char* threads : {"1", "2"})
    ASSERT_EQ(quantize_with(folder / threads, {"--format", "int4", "--calibrate", kText,
                                               "--calibrate-tokens", "1024", "-t", threads})
                  .code,
              0);
  EXPECT_TRUE(folder.read("1/model.safetensors") == folder.read("2/model.safetensors"));
}

bool have_equal_values(const io::WeightFiles& a, const io::WeightFiles& b, std::string_view name) {
  const auto values = [&](const io::WeightFiles& files) {
    return files.tensor(files.packed(name)->values).bytes;
  };
  return std::ranges::equal(values(a), values(b));
}

// The tensors of other formats are rounded to nearest, as without a text.
TEST(QuantizeCalibrated, EightBitsStayNearest) {
  const TempDir folder;
  std::vector<std::string> more = {"--format", "int4", "--quantize-rule", "layers:0=int8"};
  ASSERT_EQ(quantize_with(folder / "near", more).code, 0);
  more.insert(more.end(), {"--calibrate", kText});
  ASSERT_EQ(quantize_with(folder / "text", more).code, 0);
  const io::WeightFiles near(folder / "near"), text(folder / "text");
  int eight = 0;
  for (const std::string_view name : text.names()) {
    if (!text.packed(name)) continue;
    const bool has_eight_bits = name.find("layers.0.") != name.npos;
    EXPECT_EQ(have_equal_values(text, near, name), has_eight_bits) << name;
    eight += has_eight_bits;
  }
  EXPECT_GT(eight, 0);
}

TEST(QuantizeCalibrated, ExpertsOfAModelAreCalibrated) {
  const TempDir folder;
  const std::string run =
      "family = \"mixtral\"\n[model]\nvocab_size = 258\nhidden_size = 32\n"
      "intermediate_size = 64\nnum_hidden_layers = 1\n"
      "num_attention_heads = 2\nnum_key_value_heads = 2\n"
      "num_local_experts = 4\nnum_experts_per_tok = 2\n"
      "max_position_embeddings = 64\n[run]\nout = \"" +
      folder / "moe" + "\"\n[data]\ntrain = \"" + kText +
      "\"\nsequence_length = 32\n[train]\nsteps = 2\nbatch_size = 2\n";
  ASSERT_EQ(lamina_program({"train", folder.write("moe.toml", run), "--quiet"}).code, 0);
  const Finished result =
      quantize_with(folder / "out", {"--format", "int4", "--calibrate", kText}, folder / "moe");
  ASSERT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(quantize_with(folder / "near", {"--format", "int4"}, folder / "moe").code, 0);
  const io::WeightFiles mine(folder / "out"), near(folder / "near");
  int experts = 0, changed = 0;
  for (const std::string_view name : mine.names()) {
    if (name.find("experts") == name.npos || !mine.packed(name)) continue;
    ++experts;
    changed += !have_equal_values(mine, near, name);
  }
  EXPECT_EQ(experts, 12);
  EXPECT_EQ(changed, 12);
  EXPECT_EQ(lamina_program({"decode", "-m", folder / "out", "--ids", "1,2", "-n", "2"}).code, 0);
}

TEST(QuantizeCalibrated, RowsFitTheLearnedPositions) {
  const TempDir folder;
  ASSERT_EQ(
      train_tiny(folder, "model", {"--quiet", "--set", "model.trainable_position_size=40"}).code,
      0);
  const Finished result =
      quantize_with(folder / "out", {"--format", "int4", "--calibrate", kText}, folder / "model");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(QuantizeCalibrated, InputsThatAreNotFiniteAreRefused) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "model"}).code, 0);
  spoil_tensor(folder / "model", "model.embed_tokens.weight",
               [](std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{0xff}); });
  const Finished result =
      quantize_with(folder / "out", {"--format", "int4", "--calibrate", kText}, folder / "model");
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the inputs of 'layers.0."));
  EXPECT_THAT(result.err, HasSubstr("are not finite for " + kText + "\n"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(QuantizeCalibrated, MistakesAreRefused) {
  const TempDir folder;
  const auto refusal = [&](const std::vector<std::string>& more, int code) {
    const Finished result = quantize_with(folder / "q", more);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "q"));
    return result.err;
  };
  EXPECT_EQ(refusal({"--format", "int4", "--calibrate-tokens", "64"}, 2),
            "error: --calibrate-tokens: needs --calibrate FILE; add it\n");
  EXPECT_THAT(refusal({"--format", "int4", "--calibrate", folder / "none.txt"}, 5),
              HasSubstr("none.txt"));
  EXPECT_THAT(refusal({"--format", "int4", "--calibrate", folder.write("short.txt", "")}, 5),
              HasSubstr("short.txt"));
  // The text gives no inputs of the head.
  for (const std::vector<std::string>& formats : std::vector<std::vector<std::string>>{
           {"int8"},
           {"fp8"},
           {"int8", "--quantize-rule", "head=int4"},
           {"int4", "--quantize-rule", "head=int4", "--quantize-rule", "role:weight=none"}}) {
    std::vector<std::string> more = {"--calibrate", kText, "--format"};
    more.insert(more.end(), formats.begin(), formats.end());
    EXPECT_THAT(refusal(more, 2),
                StartsWith("error: --calibrate: has no effect: no matrix of the layers gets an "
                           "int4 format or mxfp4, and only these are rounded with error feedback\n"
                           "  remove it, use --format int4, or check the rules\n"
                           "  matrices whose rows are not multiples of 32 values stay plain\n"));
  }
}

// The text does not exist: errors of the formats come before it is read.
TEST(TargetBits, ThatNoFormatHasAreRefusedBeforeTheText) {
  const TempDir folder;
  const auto refusal = [&](const char* format, const char* bits) {
    const Finished result = quantize_with(folder / "q", {"--format", format, "--target-bits", bits,
                                                         "--calibrate", folder / "none.txt"});
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "q"));
    return result.err;
  };
  EXPECT_THAT(refusal("fp8", "8.2"),
              StartsWith("error: --target-bits: needs a format with fewer bits than int8, got fp8\n"
                         "  some matrices keep that format, others get int8; eg: --format int4\n"));
  EXPECT_THAT(
      refusal("int4", "4"),
      StartsWith("error: --target-bits: got 4 bits per value; the formats need 4.500 without "
                 "any matrix in int8\n"
                 "  give at least that, or a format with fewer bits: int4-g128 has 4.125\n"));
}

// The formats need 5.35714 bits per value.
TEST(TargetBits, ThatTheErrorNamesAreEnough) {
  const TempDir folder;
  const auto with = [&](const char* bits) {
    return quantize_with(folder / "q", {"--format", "int4", "--target-bits", bits,
                                        "--quantize-rule", "layers.0.feed_forward.*=int8"});
  };
  const Finished refused = with("5.357");
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("error: --target-bits: got 5.357 bits per value; the formats "
                                     "need 5.358 without any matrix in int8\n"));
  const Finished result = with("5.358");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(TargetBits, NeedAMatrixThatMayGetThem) {
  const TempDir folder;
  const Finished result = quantize_with(folder / "q", {"--format", "int4", "--target-bits", "8",
                                                       "--quantize-rule", "layers.*.weight=int8"});
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "q"));
  EXPECT_THAT(result.err,
              StartsWith("error: --target-bits: has no effect: no matrix gets int4\n"
                         "  remove it, or check the rules\n"
                         "  matrices whose rows are not multiples of 32 values stay plain\n"));
}

TEST(TargetBits, ThatAreTooFewForAnyLayerSayHowManyAreEnough) {
  const TempDir folder;
  const Finished few =
      quantize_with(folder / "few", {"--format", "int4", "--target-bits", "4.6", "--json"});
  ASSERT_EQ(few.code, 0) << few.err;
  const JsonDocument json = JsonDocument::parse(few.out, "json");
  EXPECT_EQ(json.root().at("bits_per_value").as_double(), 4.5);
  EXPECT_EQ(json.root().at("matrices").size(), 1u);
  EXPECT_EQ(json.root().at("matrices").at("INT4_32").as_int64(), 12);
  const std::string before = "the smallest of these groups needs ";
  const std::size_t at = few.err.find(before);
  ASSERT_NE(at, few.err.npos) << few.err;
  const std::string enough = few.err.substr(at + before.size(), 5);
  const Finished changed =
      quantize_with(folder / "enough", {"--format", "int4", "--target-bits", enough, "--json"});
  ASSERT_EQ(changed.code, 0) << changed.err;
  const JsonDocument then = JsonDocument::parse(changed.out, "json");
  EXPECT_EQ(then.root().at("matrices").size(), 2u);
  EXPECT_LE(then.root().at("bits_per_value").as_double(), std::stod(enough));
}

TEST(TargetBits, AreKeptAndLowerTheDivergence) {
  const TempDir folder;
  ASSERT_EQ(quantize_with(folder / "base", {"--format", "int4"}).code, 0);
  double last = mean_kl(folder / "base");
  std::int64_t before = 0;
  for (const char* bits : {"5.5", "7", "8.5"}) {
    const Finished result =
        quantize_with(folder / bits, {"--format", "int4", "--target-bits", bits});
    ASSERT_EQ(result.code, 0) << result.err;
    const io::WeightFiles files(folder / bits);
    std::int64_t eight = 0;
    for (const std::string_view name : files.names())
      if (const io::PackedTensors* packed = files.packed(name);
          packed && files.tensor(packed->values).shape[-1] == 32 / 4)  // four numbers in a word
        ++eight;
    EXPECT_GT(eight, before) << bits;
    before = eight;
    const double kl = mean_kl(folder / bits);
    EXPECT_LT(kl, last) << bits;
    last = kl;
  }
}

// Rounded keys and values change the predictions a little, plain ones not at all.
TEST(EvalKvDtype, MeasuresTheLossOfRoundedKeysAndValues) {
  const double int8 = mean_kl(trained_run(), {"--kv-dtype", "int8"});
  const double fp8 = mean_kl(trained_run(), {"--kv-dtype", "fp8"});
  EXPECT_GT(int8, 0);
  EXPECT_GT(fp8, int8);
  EXPECT_LT(fp8, 1e-2);
}

TEST(EvalKvDtype, NeedsAReference) {
  const Finished result =
      lamina_program({"eval", "-m", trained_run(), "--data", kText, "--kv-dtype", "int8"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "error: --kv-dtype: needs --against DIR; add it\n"
            "  the model itself may be DIR: it is compared without --kv-dtype\n");
}

}  // namespace
}  // namespace lamina::cli
