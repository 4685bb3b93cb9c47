// Decoded weights of published formats: numbers computed by hand.
#include "io/stored_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "formats/fp8.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "support/weight_values.h"

namespace lamina::io {
namespace {

using testing::all_values;
using testing::all_values_of_blocks;
using testing::TempDir;

struct Stored {
  TensorSpec spec;
  std::vector<std::byte> bytes;
};

template <typename T>
Stored stored(std::string name, DType dtype, Shape shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {{std::move(name), dtype, shape}, {bytes.begin(), bytes.end()}};
}

WeightFiles written(const TempDir& dir, const std::vector<Stored>& tensors,
                    const std::string& config = "") {
  std::vector<TensorSpec> specs;
  for (const Stored& t : tensors) specs.push_back(t.spec);
  write_weight_files(dir.path(), specs, [&](const TensorSpec& spec) {
    for (const Stored& t : tensors)
      if (t.spec.name == spec.name) return std::span<const std::byte>(t.bytes);
    return std::span<const std::byte>();
  });
  if (!config.empty()) dir.write("config.json", config);
  return WeightFiles(dir.path());
}

using Floats = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;

Bytes counted_bytes(std::size_t count) {
  Bytes out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(i * 37 % 127);
  return out;
}

TEST(StoredWeight, Example) {
  TempDir dir;
  WeightFiles files = written(dir, {stored<float>("w", DType::f32, {2, 3}, {0, 1, 2, 3, 4, 5})});
  StoredWeight weight(files, "w");
  Floats column(2);
  weight.decode(1, 3, column);
  EXPECT_EQ(column, (Floats{1, 4}));
  EXPECT_TRUE(weight.is_plain());
}

TEST(StoredWeight, F8IsItsValueTimesTheScaleOfItsBlock) {
  TempDir dir;
  // 1, 2, smallest subnormal, largest, and -1.
  const Bytes e4m3 = {0x38, 0x40, 0x01, 0x7e, 0xb8, 0x00};
  WeightFiles files =
      written(dir,
              {stored("w.weight", DType::f8_e4m3, {2, 3}, e4m3),
               stored<float>("w.weight_scale_inv", DType::f32, {1, 2}, {10, 100})},
              R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 2]}})");
  StoredWeight weight(files, "w.weight");
  EXPECT_EQ(all_values(weight), (Floats{10, 20, 100 * 0x1p-9f, 4480, -10, 0}));
  EXPECT_EQ(weight.names(), (std::vector<std::string_view>{"w.weight", "w.weight_scale_inv"}));
}

TEST(StoredWeight, ABlockSizeMayBeInTextConfigBelowANullAtTheTop) {
  TempDir dir;
  const WeightFiles files =
      written(dir,
              {stored("w.weight", DType::f8_e4m3, {2, 4}, Bytes(8, 0x38)),
               stored<float>("w.weight_scale_inv", DType::f32, {1, 2}, {3, 5})},
              R"({"quantization_config": null, "text_config": {"quantization_config": {
          "quant_method": "fp8", "weight_block_size": [2, 2]}}})");
  EXPECT_EQ(all_values(StoredWeight(files, "w.weight")), (Floats{3, 3, 5, 5, 3, 3, 5, 5}));
}

// They describe how other programs round activations, keys and values.
TEST(StoredWeight, ScalesOfActivationsBesideFp8HaveNoName) {
  std::vector<Stored> tensors = {stored("a.q_proj.weight", DType::f8_e4m3, {2, 2}, Bytes(4, 0x38)),
                                 stored<float>("a.q_proj.weight_scale", DType::f32, {1}, {3})};
  for (const char* scale : {"a.q_proj.input_scale", "a.k_scale", "a.v_scale"})
    tensors.push_back(stored<float>(scale, DType::f32, {1}, {1}));
  TempDir dir;
  const WeightFiles files =
      written(dir, tensors, R"({"quantization_config": {"quant_method": "fp8"}})");
  EXPECT_EQ(std::set<std::string_view>(files.names().begin(), files.names().end()),
            (std::set<std::string_view>{"a.q_proj.weight", "a.q_proj.weight_scale"}));
  TempDir plain;
  EXPECT_EQ(written(plain, tensors).names().size(), 5u);
}

TEST(StoredWeight, F8MayHaveAScaleForEachRow) {
  TempDir dir;
  WeightFiles files = written(dir, {stored("w.weight", DType::f8_e4m3, {2, 2}, Bytes(4, 0x38)),
                                    stored<float>("w.weight_scale", DType::f32, {2, 1}, {3, 5})});
  EXPECT_EQ(all_values(StoredWeight(files, "w.weight")), (Floats{3, 3, 5, 5}));
}

TEST(StoredWeight, F8MayHaveAScaleForEachGroupOfARow) {
  TempDir dir;
  const WeightFiles files =
      written(dir, {stored("w.weight", DType::f8_e4m3, {2, 64}, counted_bytes(128)),
                    stored<float>("w.weight_scale", DType::f32, {2, 2}, {3, 5, 7, 9})});
  const StoredWeight weight(files, "w.weight");
  const Floats values = all_values(weight), scales = {3, 5, 7, 9};
  const Bytes bytes = counted_bytes(128);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], formats::kE4m3[bytes[i]] * scales[i / 32]) << i;
  EXPECT_EQ(weight.block_format(), formats::fp8_format(32));
  EXPECT_EQ(all_values_of_blocks(weight), values);
}

TEST(StoredWeight, ScalesInBytesArePowersOfTwo) {
  TempDir dir;
  const WeightFiles files =
      written(dir, {stored("w.weight", DType::f8_e4m3, {2, 64}, Bytes(128, 0x38)),
                    stored("w.weight_scale", DType::u8, {2, 2}, Bytes{127, 128, 126, 130})});
  const StoredWeight weight(files, "w.weight");
  const Floats values = all_values(weight);
  EXPECT_EQ((Floats{values[0], values[32], values[64], values[96]}), (Floats{1, 2, 0.5f, 8}));
  EXPECT_EQ(all_values_of_blocks(weight), values);
}

TEST(StoredWeight, GroupsOfModulesMayHaveBlocksOfTwoSizes) {
  TempDir dir;
  const auto group = [](int rows) {
    return fmt::format(R"({{"targets": ["Linear"], "weights": {{"num_bits": 8, "type": "float",
                        "strategy": "block", "block_structure": [{}, 2]}}}})",
                       rows);
  };
  const WeightFiles files =
      written(dir,
              {stored("a.weight", DType::f8_e4m3, {4, 2}, Bytes(8, 0x38)),
               stored<float>("a.weight_scale", DType::f32, {4, 1}, {1, 2, 3, 4}),
               stored("b.weight", DType::f8_e4m3, {4, 2}, Bytes(8, 0x38)),
               stored<float>("b.weight_scale", DType::f32, {2, 1}, {1, 2})},
              fmt::format(R"({{"quantization_config": {{"quant_method": "compressed-tensors",
                  "format": "float-quantized", "config_groups": {{"a": {}, "b": {}}}}}}})",
                          group(1), group(2)));
  EXPECT_EQ(all_values(StoredWeight(files, "a.weight")), (Floats{1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(all_values(StoredWeight(files, "b.weight")), (Floats{1, 1, 1, 1, 2, 2, 2, 2}));
}

// Blocks of 3 and of 4 rows divide 5 rows into two, in different ways; one block is the same.
TEST(StoredWeight, BlocksOfTwoSizesMustDifferInTheirScales) {
  const auto group = [](int rows) {
    return fmt::format(R"({{"targets": ["Linear"], "weights": {{"num_bits": 8, "type": "float",
                        "strategy": "block", "block_structure": [{}, 2]}}}})",
                       rows);
  };
  const std::string config =
      fmt::format(R"({{"quantization_config": {{"quant_method": "compressed-tensors",
                  "format": "float-quantized", "config_groups": {{"a": {}, "b": {}}}}}}})",
                  group(3), group(4));
  TempDir dir;
  const WeightFiles files = written(dir,
                                    {stored("a.weight", DType::f8_e4m3, {5, 2}, Bytes(10, 0x38)),
                                     stored<float>("a.weight_scale", DType::f32, {2, 1}, {1, 2}),
                                     stored("b.weight", DType::f8_e4m3, {3, 2}, Bytes(6, 0x38)),
                                     stored<float>("b.weight_scale", DType::f32, {1, 1}, {4})},
                                    config);
  EXPECT_ERROR_SAYS(StoredWeight(files, "a.weight"), ExitCode::checkpoint,
                    "tensor 'a.weight' is [5, 2], and its scales [2, 1] fit blocks of 3 x 2 and of "
                    "4 x 2");
  EXPECT_EQ(all_values(StoredWeight(files, "b.weight")), Floats(6, 4));
}

// Forms that compressed-tensors reads as well as those that it writes.
TEST(StoredWeight, GroupsOfModulesMayHaveOtherForms) {
  TempDir dir;
  const auto config = [](std::string_view block, std::string_view rotations) {
    return fmt::format(R"({{"quantization_config": {{"quant_method": "compressed-tensors",
        "format": "float-quantized", "transform_config": {}, "config_groups": {{"a":
        {{"targets": ["Linear"], "weights": {{"num_bits": 8, "type": "FLOAT",
        "strategy": "BLOCK", "block_structure": {}}}}}}}}}}})",
                       rotations, block);
  };
  const auto files_of = [&](const std::string& text) {
    return written(dir,
                   {stored("a.weight", DType::f8_e4m3, {4, 2}, Bytes(8, 0x38)),
                    stored<float>("a.weight_scale", DType::f32, {2, 1}, {1, 2})},
                   text);
  };
  const WeightFiles files = files_of(config("\"2x2\"", R"({"config_groups": {}})"));
  EXPECT_EQ(all_values(StoredWeight(files, "a.weight")), (Floats{1, 1, 1, 1, 2, 2, 2, 2}));
  for (const char* block : {"\"2\"", "\"2x\"", "\"2x2x2\"", "\"x2\"", "\"0x2\""})
    EXPECT_ERROR_SAYS(files_of(config(block, "{}")), ExitCode::checkpoint,
                      "must be two positive numbers");
  EXPECT_ERROR_SAYS(files_of(config("[2, 2]", R"({"config_groups": {"a": {"type": "hadamard"}}})")),
                    ExitCode::checkpoint, "lamina does not rotate activations");
}

TEST(StoredWeight, StackedF8HasSeparateBlocksInEachMatrix) {
  TempDir dir;
  WeightFiles files = written(dir, {stored("w", DType::f8_e4m3, {2, 1, 2}, Bytes(4, 0x38)),
                                    stored<float>("w_scale_inv", DType::f32, {2, 1, 1}, {3, 5})});
  EXPECT_EQ(all_values(StoredWeight(files, "w")), (Floats{3, 3, 5, 5}));
}

TEST(StoredWeight, ScalesMayBePowersOfTwoNamedAfterTheModule) {
  TempDir dir;
  WeightFiles files = written(dir, {stored("wq.weight", DType::f8_e4m3, {1, 2}, Bytes{0x38, 0x40}),
                                    stored("wq.scale", DType::f8_e8m0, {1, 1}, Bytes{130})});
  EXPECT_EQ(all_values(StoredWeight(files, "wq.weight")), (Floats{8, 16}));
}

TEST(StoredWeight, Mxfp4HasTheEvenElementInTheLowHalf) {
  TempDir dir;
  Bytes blocks(32, 0), scales = {127, 128};
  blocks[0] = 0x71;   // 0.5, then 6
  blocks[1] = 0x98;   // -0, then -0.5
  blocks[16] = 0x0f;  // -6, in the second block
  WeightFiles files = written(dir, {stored("x_blocks", DType::u8, {1, 2, 16}, blocks),
                                    stored("x_scales", DType::u8, {1, 2}, scales)});
  StoredWeight weight(files, "x_blocks");
  EXPECT_EQ(weight.shape(), (Shape{1, 64}));
  const Floats got = all_values(weight);
  EXPECT_EQ(got[0], 0.5f);
  EXPECT_EQ(got[1], 6.f);
  EXPECT_TRUE(got[2] == 0 && std::signbit(got[2]));
  EXPECT_EQ(got[3], -0.5f);
  EXPECT_EQ(got[32], -12.f);
}

TEST(StoredWeight, Fp4PairsHaveAScaleForEach32ValuesOfARow) {
  TempDir dir;
  Bytes pairs(2 * 20, 0);  // two rows of 40 values: a whole block and a part
  pairs[0] = 0x71;         // 0.5, then 6
  pairs[15] = 0xf0;        // the last of the block is -6
  pairs[16] = 0x02;        // 1, in the part
  pairs[20 + 19] = 0x90;   // the last of the second row is -0.5
  const Bytes scales = {127, 128, 129, 130};
  for (const char* name : {"w1.scale", "w1.weight_scale_inv"}) {
    WeightFiles files = written(dir, {stored("w1.weight", DType::i8, {2, 20}, pairs),
                                      stored(name, DType::f8_e8m0, {2, 2}, scales)});
    StoredWeight weight(files, "w1.weight");
    EXPECT_EQ(weight.shape(), (Shape{2, 40}));
    EXPECT_FALSE(weight.is_plain());
    EXPECT_EQ(weight.names(), (std::vector<std::string_view>{"w1.weight", name}));
    const Floats got = all_values(weight);
    EXPECT_EQ(got[0], 0.5f);
    EXPECT_EQ(got[1], 6.f);
    EXPECT_EQ(got[31], -6.f);
    EXPECT_EQ(got[32], 2.f);
    EXPECT_EQ(got[79], -4.f);
    Floats every_third(20);
    weight.decode(1, 3, every_third);
    for (std::size_t i = 0; i < every_third.size(); ++i) EXPECT_EQ(every_third[i], got[1 + 3 * i]);
  }
}

TEST(StoredWeight, BlocksOfMxfp4HaveItsValues) {
  TempDir dir;
  WeightFiles files =
      written(dir, {stored("x_blocks", DType::u8, {3, 2, 16}, counted_bytes(96)),
                    stored("x_scales", DType::u8, {3, 2}, Bytes{120, 121, 122, 123, 124, 0})});
  const StoredWeight weight(files, "x_blocks");
  EXPECT_EQ(weight.block_format(), &formats::mxfp4_format());
  EXPECT_FALSE(weight.is_in_blocks());
  EXPECT_EQ(all_values_of_blocks(weight), all_values(weight));
}

TEST(StoredWeight, BlocksOfF8HaveItsValues) {
  TempDir dir;
  WeightFiles files =
      written(dir, {stored("w", DType::f8_e4m3, {130, 256}, counted_bytes(33280)),
                    stored<float>("w_scale_inv", DType::f32, {2, 2}, {3, 5, 7, 9})});
  const StoredWeight weight(files, "w");
  EXPECT_EQ(weight.block_format(), formats::fp8_format(128));
  EXPECT_EQ(all_values_of_blocks(weight), all_values(weight));
}

TEST(StoredWeight, BlocksOfF8AreSmallIfItsScalesAre) {
  TempDir dir;
  WeightFiles files =
      written(dir,
              {stored("w", DType::f8_e4m3, {2, 64}, counted_bytes(128)),
               stored<float>("w_scale_inv", DType::f32, {1, 2}, {3, 5})},
              R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 32]}})");
  const StoredWeight weight(files, "w");
  EXPECT_EQ(weight.block_format(), formats::fp8_format(32));
  EXPECT_EQ(all_values_of_blocks(weight), all_values(weight));
}

TEST(StoredWeight, ValuesThatAreNoWholeBlocksHaveNoFormat) {
  TempDir dir;
  WeightFiles files = written(dir, {stored("w", DType::f8_e4m3, {1, 48}, counted_bytes(48)),
                                    stored<float>("w_scale_inv", DType::f32, {1}, {3}),
                                    stored<float>("p", DType::f32, {1, 32}, Floats(32))});
  EXPECT_EQ(StoredWeight(files, "w").block_format(), nullptr);
  EXPECT_EQ(StoredWeight(files, "p").block_format(), nullptr);
}

TEST(StoredWeight, Fp4PairsWithoutScalesNameTheTensorThatIsMissing) {
  TempDir dir;
  WeightFiles files = written(dir, {stored("w1.weight", DType::i8, {1, 16}, Bytes(16))});
  EXPECT_USER_ERROR(StoredWeight(files, "w1.weight"), ExitCode::checkpoint,
                    dir.path() +
                        "/model.safetensors: tensor 'w1.weight' is stored as i8, but its scales "
                        "are missing\n"
                        "  expected a tensor 'w1.scale' beside it: i8 weights contain pairs of FP4 "
                        "values");
}

TEST(StoredWeight, F8WithoutScalesNamesTheTensorThatIsMissing) {
  TempDir dir;
  WeightFiles files = written(dir, {stored("w.weight", DType::f8_e4m3, {1, 2}, Bytes(2))});
  EXPECT_USER_ERROR(
      StoredWeight(files, "w.weight"), ExitCode::checkpoint,
      dir.path() +
          "/model.safetensors: tensor 'w.weight' is stored as f8_e4m3, but its scales are missing\n"
          "  expected a tensor 'w.scale' or 'w.weight_scale' or 'w.weight_scale_inv' beside it");
}

TEST(StoredWeight, F8WithoutColumnsIsNoMatrix) {
  TempDir dir;
  const WeightFiles files =
      written(dir, {stored("w.weight", DType::f8_e4m3, {2, 0}, Bytes()),
                    stored<float>("w.weight_scale", DType::f32, {2, 1}, {1, 1})});
  EXPECT_ERROR_SAYS(StoredWeight(files, "w.weight"), ExitCode::checkpoint,
                    "tensor 'w.weight' is [2, 0] of f8\n  f8 weights must be matrices");
}

TEST(StoredWeight, ScalesOfAnotherGridShowBothShapes) {
  TempDir dir;
  WeightFiles files = written(dir, {stored("w", DType::f8_e4m3, {130, 2}, Bytes(260)),
                                    stored<float>("w_scale_inv", DType::f32, {3, 1}, {1, 1, 1})});
  EXPECT_ERROR_SAYS(StoredWeight(files, "w"), ExitCode::checkpoint,
                    "tensor 'w' is [130, 2], in blocks of 128 x 128: its scales must be [2, 1], "
                    "but 'w_scale_inv' is [3, 1]");
}

TEST(StoredWeight, Mxfp4OfAnotherFormIsRefused) {
  TempDir dir;
  WeightFiles files = written(dir, {stored("x_blocks", DType::u8, {1, 2, 8}, Bytes(16)),
                                    stored("x_scales", DType::u8, {1, 2}, Bytes(2))});
  EXPECT_ERROR_SAYS(StoredWeight(files, "x_blocks"), ExitCode::checkpoint,
                    "tensor 'x_blocks' is u8[1, 2, 8], and 'x_scales' is u8[1, 2]; expected u8[.., "
                    "G, 16] and u8[.., G]");
}

TEST(StoredWeight, ScalesWithoutAWeightAreRefused) {
  TempDir dir;
  const WeightFiles files = written(dir, {stored<std::uint8_t>("w", DType::f8_e8m0, {2}, {1, 2})});
  EXPECT_ERROR_SAYS(StoredWeight(files, "w"), ExitCode::checkpoint,
                    "tensor 'w' has element type f8_e8m0; expected f32, bf16, f16 or f64");
}

}  // namespace
}  // namespace lamina::io
