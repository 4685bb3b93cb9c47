// Packed weights: every value equals the definition of its layout, in double arithmetic.
#include "io/packed_weight.h"

#include <gtest/gtest.h>

#include <cmath>

#include "formats/lookup.h"
#include "support/expect_error.h"
#include "support/packed_checkpoint.h"
#include "support/weight_values.h"

namespace lamina::io {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the layouts

using Floats = std::vector<float>;

WeightFiles packed_files(const TempDir& dir, const std::vector<FileBytes>& tensors,
                         const std::string& quantization_config) {
  write_checkpoint(dir.path(), tensors, alone(quantization_config));
  return WeightFiles(dir.path());
}

// Compares values, strided values and blocks; `format` is empty for weights without blocks.
void expect_weight(const WeightFiles& files, const IntegerWeight& want, std::string_view format) {
  const StoredWeight weight(files, "m.weight");
  EXPECT_EQ(weight.shape(), (Shape{want.rows, want.columns}));
  EXPECT_FALSE(weight.is_uncompressed());
  const Floats values = want.values();
  EXPECT_EQ(all_values(weight), values);
  Floats strided(5);
  weight.decode(3, 7, strided);
  for (std::size_t i = 0; i < strided.size(); ++i) EXPECT_EQ(strided[i], values[3 + 7 * i]);
  ASSERT_EQ(weight.block_format() == nullptr, format.empty());
  if (format.empty()) return;
  EXPECT_EQ(weight.block_format()->name, format);
  EXPECT_EQ(all_values_of_blocks(weight), values);
}

TEST(PackedWords, HaveTheValuesOfTheirDefinition) {
  struct Case {
    int bits;
    std::int64_t group;
    bool zeros;
    DType scale;
    std::string_view format;
  };
  for (const Case& c :
       {Case{4, 32, false, DType::bf16, "INT4_32"}, Case{4, 64, false, DType::f16, "INT4_64_F16"},
        Case{4, 32, false, DType::f16, "Q4_0"}, Case{4, 128, true, DType::bf16, "INT4Z_128"},
        Case{4, 32, true, DType::f16, "INT4Z_32_F16"}, Case{8, 128, false, DType::bf16, "INT8_128"},
        Case{8, 64, true, DType::bf16, ""},   // no format with zero points
        Case{4, 64, false, DType::f32, ""},   // no format with f32 scales
        Case{4, 16, false, DType::bf16, ""},  // groups that are too small
        Case{4, 192, false, DType::bf16, "INT4_64"},
        Case{8, 384, false, DType::bf16, "INT8_128"}}) {
    SCOPED_TRACE(::testing::Message() << c.bits << " bits, groups of " << c.group << " "
                                      << name(c.scale) << (c.zeros ? " zero points" : ""));
    TempDir dir;
    const IntegerWeight w = random_weight(9, 384, c.bits, c.group, c.zeros, 3);
    expect_weight(packed_files(dir, as_words("m", w, c.scale, c.zeros),
                               compressed_tensors_config("pack-quantized", c.bits, "group", c.group,
                                                         !c.zeros)),
                  w, c.format);
  }
}

TEST(PackedWords, RowsMayEndInsideAWord) {
  TempDir dir;
  const IntegerWeight w = random_weight(3, 37, 4, 37, false, 4);
  expect_weight(packed_files(dir, as_words("m", w, DType::bf16, false),
                             compressed_tensors_config("pack-quantized", 4, "channel", 0, true)),
                w, "");
}

TEST(PackedWords, AnIndexGivesTheGroupOfEachColumn) {
  TempDir dir;
  IntegerWeight w = random_weight(5, 128, 4, 32, true, 5);
  for (std::size_t c = 0; c < 128; ++c) w.group_of[c] = static_cast<std::int32_t>(c * 5 % 128 / 32);
  std::vector<FileBytes> tensors = as_words("m", w, DType::bf16, true);
  tensors.push_back(file_bytes("m.weight_g_idx", DType::i32, {128}, w.group_of));
  expect_weight(packed_files(dir, tensors,
                             compressed_tensors_config("pack-quantized", 4, "group", 32, false,
                                                       R"(, "actorder": "group")")),
                w, "");
}

TEST(PackedBytes, HaveTheValuesOfTheirDefinition) {
  for (const bool zeros : {false, true}) {
    TempDir dir;
    const IntegerWeight w = random_weight(6, 256, 8, 256, zeros, 6);
    expect_weight(packed_files(dir, as_bytes("m", w, DType::bf16, zeros),
                               compressed_tensors_config("int-quantized", 8, "channel", 0, !zeros)),
                  w, zeros ? "" : "INT8_128");
  }
}

TEST(PackedBytes, ZeroPointsThatAreZeroAreNone) {
  TempDir dir;
  const IntegerWeight w = random_weight(6, 64, 8, 64, false, 6);
  expect_weight(packed_files(dir, as_bytes("m", w, DType::f16, true),
                             compressed_tensors_config("int-quantized", 8, "channel", 0, true)),
                w, "INT8_64_F16");
}

TEST(PackedBytes, OneScaleMayServeTheTensor) {
  TempDir dir;
  IntegerWeight w = random_weight(4, 64, 8, 64, false, 7);
  std::vector<FileBytes> tensors = as_bytes("m", w, DType::bf16, false);
  w.scales.assign(4, w.scales[0]);
  tensors[1] = float_bytes("m.weight_scale", DType::bf16, {1}, {w.scales[0]});
  expect_weight(
      packed_files(dir, tensors, compressed_tensors_config("int-quantized", 8, "tensor", 0, true)),
      w, "INT8_64");
}

TEST(PackedGptq, HasTheValuesOfItsDefinition) {
  struct Case {
    int bits, version;
    std::int64_t group;
    bool symmetric;
    std::string_view format;
  };
  for (const Case& c :
       {Case{4, 1, 128, true, "INT4_128_F16"}, Case{4, 2, 128, true, "INT4_128_F16"},
        Case{4, 1, 64, false, "INT4Z_64_F16"}, Case{4, 2, 32, false, "INT4Z_32_F16"},
        Case{8, 1, 32, true, "Q8_0"}, Case{8, 2, 64, false, ""},
        Case{4, 1, -1, false, "INT4Z_128_F16"}, Case{4, 1, 160, true, "Q4_0"}}) {
    SCOPED_TRACE(::testing::Message()
                 << c.bits << " bits, version " << c.version << ", groups of " << c.group);
    TempDir dir;
    const std::int64_t columns = 256;
    const IntegerWeight w =
        random_weight(16, columns, c.bits, c.group == -1 ? columns : c.group, !c.symmetric, 8);
    expect_weight(packed_files(dir, as_gptq("m", w, DType::f16, c.version),
                               gptq_config(c.bits, c.group, c.symmetric, c.version)),
                  w, c.format);
  }
}

// AutoRound gives a symmetric group a negative scale if its largest value is positive: -8 is then
// the number of that value.
TEST(PackedIntegers, ScalesMayBeNegative) {
  for (const int bits : {4, 8}) {
    IntegerWeight w = random_weight(16, 256, bits, 64, false, 13);
    for (std::size_t i = 0; i < w.scales.size(); i += 3) w.scales[i] *= -1;
    const std::string kind = bits == 4 ? "INT4_64" : "INT8_64";
    TempDir gptq, words, bytes;
    expect_weight(
        packed_files(gptq, as_gptq("m", w, DType::f16, 1), gptq_config(bits, 64, true, 1)), w,
        kind + "_F16");
    expect_weight(
        packed_files(words, as_words("m", w, DType::bf16, false),
                     compressed_tensors_config("pack-quantized", bits, "group", 64, true)),
        w, kind);
    if (bits == 8)
      expect_weight(packed_files(bytes, as_bytes("m", w, DType::bf16, false),
                                 compressed_tensors_config("int-quantized", 8, "group", 64, true)),
                    w, kind);
  }
  TempDir awq;
  IntegerWeight w = random_weight(24, 256, 4, 128, true, 13);
  for (std::size_t i = 0; i < w.scales.size(); i += 3) w.scales[i] *= -1;
  expect_weight(packed_files(awq, as_awq("m", w, DType::f16), awq_config(128)), w, "INT4Z_128_F16");
}

// GPTQModel subtracts from words, so a zero point of 0 borrows from the next row's.
TEST(PackedGptq, WordsOfZeroPointsAreStoredMinusOnes) {
  const struct {
    int bits;
    std::vector<int> zeros;
    std::uint32_t stored;
    std::string_view format;
  } cases[] = {{4, {0, 8, 8, 8, 8, 8, 8, 8}, 0x7777776f, "INT4Z_32_F16"},
               {4, {0, 0, 15, 0, 1, 0, 0, 0}, 0xeeeffdef, "INT4Z_32_F16"},
               {8, {0, 128, 0, 1}, 0xffff7eff, ""}};
  for (const auto& c : cases) {
    TempDir dir;
    IntegerWeight w = random_weight(std::ssize(c.zeros), 32, c.bits, 32, true, 10);
    w.zeros = c.zeros;
    std::vector<FileBytes> tensors = as_gptq("m", w, DType::f16, 1);
    tensors[1] = file_bytes("m.qzeros", DType::i32, {1, 1}, std::vector<std::uint32_t>{c.stored});
    expect_weight(packed_files(dir, tensors, gptq_config(c.bits, 32, false, 1)), w, c.format);
  }
}

// A null under one key of the version does not hide the other key.
TEST(PackedGptq, TheVersionMayBeUnderEitherKey) {
  const IntegerWeight w = random_weight(8, 64, 4, 32, true, 12);
  for (const char* version :
       {R"("checkpoint_format": null, "format": "gptq_v2")", R"("format": "gptq_v2")",
        R"("checkpoint_format": "gptq_v2", "format": null)",
        R"("checkpoint_format": "gptq_v2", "format": "gptq_v2")"}) {
    TempDir dir;
    expect_weight(
        packed_files(
            dir, as_gptq("m", w, DType::f16, 2),
            fmt::format(
                R"({{"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": false, {}}})",
                version)),
        w, "INT4Z_32_F16");
  }
}

TEST(PackedGptq, AnIndexGivesTheGroupOfEachColumn) {
  TempDir dir;
  IntegerWeight w = random_weight(8, 128, 4, 32, true, 9);
  for (std::size_t c = 0; c < 128; ++c) w.group_of[c] = static_cast<std::int32_t>(c * 7 % 128 / 32);
  expect_weight(packed_files(dir, as_gptq("m", w, DType::f16, 1), gptq_config(4, 32, false, 1)), w,
                "");
}

TEST(PackedAwq, HasTheValuesOfItsDefinition) {
  for (const std::int64_t group : {32, 128}) {
    TempDir dir;
    const IntegerWeight w = random_weight(24, 256, 4, group, true, 10);
    expect_weight(packed_files(dir, as_awq("m", w, DType::f16), awq_config(group)), w,
                  group == 32 ? "INT4Z_32_F16" : "INT4Z_128_F16");
  }
}

// Older files have the other names, and some programs write both.
TEST(PackedAwq, NullsDoNotHideOtherNames) {
  const IntegerWeight w = random_weight(24, 256, 4, 32, true, 10);
  for (const char* config :
       {R"("bits": null, "w_bit": 4, "group_size": null, "q_group_size": 32, "version": "GEMM")",
        R"("bits": 4, "group_size": 32, "version": "gemm", "format": "gemm", "backend": "auto")"}) {
    TempDir dir;
    expect_weight(packed_files(dir, as_awq("m", w, DType::f16),
                               fmt::format(R"({{"quant_method": "awq", {}}})", config)),
                  w, "INT4Z_32_F16");
  }
}

// FP4 numbers with their scales; the columns of a row count up.
std::vector<FileBytes> as_pairs(std::int64_t rows, std::int64_t columns) {
  std::vector<std::uint8_t> pairs;
  for (std::int64_t i = 0; i < rows * columns / 2; ++i)
    pairs.push_back(static_cast<std::uint8_t>(i * 37 % 251));
  return {file_bytes("m.weight_packed", DType::u8, {rows, columns / 2}, pairs)};
}

std::vector<FileBytes> as_nvfp4(std::int64_t rows, std::int64_t columns, float global) {
  std::vector<FileBytes> out = as_pairs(rows, columns);
  std::vector<std::uint8_t> scales;
  for (std::int64_t i = 0; i < rows * columns / 16; ++i)
    scales.push_back(static_cast<std::uint8_t>(i * 11 % 127));
  out.push_back(file_bytes("m.weight_scale", DType::f8_e4m3, {rows, columns / 16}, scales));
  out.push_back(file_bytes<float>("m.weight_global_scale", DType::f32, {1}, {global}));
  return out;
}

const std::string kNvfp4 =
    compressed_tensors_config("nvfp4-pack-quantized", 4, "tensor_group", 16, true, "", "float");

TEST(PackedNvfp4, HasTheValuesOfItsDefinition) {
  for (const std::int64_t columns : {128, 80}) {
    TempDir dir;
    const float global = 7021.7144f;
    const WeightFiles files = packed_files(dir, as_nvfp4(3, columns, global), kNvfp4);
    const StoredWeight weight(files, "m.weight");
    const Floats got = all_values(weight);
    for (std::int64_t i = 0; i < 3 * columns; ++i) {
      constexpr double kSizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
      const int pair = static_cast<int>(i / 2 * 37 % 251), q = i % 2 == 0 ? pair & 15 : pair >> 4;
      const int bits = static_cast<int>(i / 16 * 11 % 127), exponent = bits >> 3;
      const double e4m3 =
          exponent == 0 ? std::ldexp(bits & 7, -9) : std::ldexp(8 + (bits & 7), exponent - 10);
      const auto scale = static_cast<float>(e4m3 / static_cast<double>(global));
      const double want = kSizes[q & 7] * static_cast<double>(scale) * (q & 8 ? -1 : 1);
      EXPECT_EQ(got[static_cast<std::size_t>(i)], static_cast<float>(want)) << i;
    }
    ASSERT_EQ(weight.block_format() != nullptr, columns == 128);  // blocks have 64 values
    if (weight.block_format()) {
      EXPECT_EQ(weight.block_format(), &formats::nvfp4_format());
      EXPECT_EQ(all_values_of_blocks(weight), got);
    }
  }
}

TEST(PackedMxfp4, HasTheEvenElementInTheLowHalf) {
  TempDir dir;
  std::vector<FileBytes> tensors = as_pairs(2, 64);
  tensors.push_back(
      file_bytes<std::uint8_t>("m.weight_scale", DType::u8, {2, 2}, {127, 128, 126, 120}));
  const WeightFiles files = packed_files(
      dir, tensors,
      compressed_tensors_config("mxfp4-pack-quantized", 4, "group", 32, true, "", "float"));
  const StoredWeight weight(files, "m.weight");
  EXPECT_EQ(weight.block_format(), &formats::mxfp4_format());
  const Floats got = all_values(weight);
  EXPECT_EQ(got[2], 3.f);  // byte 1 is 37 = 0x25
  EXPECT_EQ(got[3], 1.f);
  EXPECT_EQ(got[32], 2 * -1.f);  // byte 16 is 16 * 37 % 251 = 90 = 0x5a
  EXPECT_EQ(got[33], 2 * 3.f);
  EXPECT_EQ(all_values_of_blocks(weight), got);
}

TEST(PackedWeights, HaveOneNameInTheFiles) {
  TempDir dir;
  std::vector<FileBytes> tensors =
      as_words("m", random_weight(8, 32, 4, 32, true, 1), DType::bf16, true);
  for (const char* name : {"m.input_scale", "m.q_scale", "m.k_zero_point", "m.v_zero_point"})
    tensors.push_back(float_bytes(name, DType::bf16, {1}, {1}));
  tensors.push_back(float_bytes("m.bias", DType::bf16, {8}, Floats(8, 0.5f)));
  const WeightFiles files = packed_files(
      dir, tensors, compressed_tensors_config("pack-quantized", 4, "group", 32, false));
  std::vector<std::string_view> names = files.names();
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string_view>{"m.bias", "m.weight"}));
  EXPECT_TRUE(files.contains("m.weight"));
  EXPECT_EQ(files.tensor("m.weight").name, "m.weight");
  EXPECT_EQ(StoredWeight(files, "m.weight").names(),
            (std::vector<std::string_view>{"m.weight_packed", "m.weight_scale",
                                           "m.weight_zero_point", "m.weight_shape", "m.input_scale",
                                           "m.q_scale", "m.k_zero_point", "m.v_zero_point"}));
}

}  // namespace
}  // namespace lamina::io
