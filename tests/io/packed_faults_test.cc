// Damaged packed weights, and configurations that contradict them.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "support/expect_error.h"
#include "support/packed_checkpoint.h"
#include "support/weight_values.h"
#include "support/wrong_index.h"

namespace lamina::io {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the layouts

const std::string kInt4 = compressed_tensors_config("pack-quantized", 4, "group", 32, true);

std::vector<FileBytes> int4_tensors(float scale = 0.5f, bool zeros = false) {
  IntegerWeight w = random_weight(8, 64, 4, 32, zeros, 1);
  w.scales[3] = scale;
  return as_words("m", w, DType::bf16, zeros);
}

std::vector<FileBytes> gptq_tensors(bool symmetric = true) {
  return as_gptq("m", random_weight(16, 64, 4, 32, !symmetric, 1), DType::f16, 1);
}

std::vector<FileBytes> without(std::vector<FileBytes> tensors, std::string_view name) {
  std::erase_if(tensors, [&](const FileBytes& t) { return t.spec.name == name; });
  return tensors;
}

std::vector<FileBytes> with(std::vector<FileBytes> tensors, FileBytes tensor) {
  tensors = without(std::move(tensors), tensor.spec.name);
  tensors.push_back(std::move(tensor));
  return tensors;
}

void read_row_of_blocks(const StoredWeight& weight, std::int64_t row) {
  const std::int64_t columns = weight.shape()[-1];
  std::vector<std::byte> out(static_cast<std::size_t>(weight.block_format()->bytes_of(columns)));
  weight.read_blocks(row * columns, columns, out.data());
}

// Expects the error when the weight is opened or its values are read.
void expect_refusal(const std::vector<FileBytes>& tensors, const std::string& config,
                    const std::string& text) {
  TempDir dir;
  write_checkpoint(dir.path(), tensors, alone(config));
  EXPECT_ERROR_SAYS(all_values(StoredWeight(WeightFiles(dir.path()), "m.weight")),
                    ExitCode::checkpoint, text);
}

TEST(PackedFaults, ScalesThatAreNoNumbersNameTheirPlace) {
  for (const auto& [scale, shown] : {std::pair{std::numeric_limits<float>::quiet_NaN(), "nan"},
                                     {std::numeric_limits<float>::infinity(), "inf"},
                                     {-std::numeric_limits<float>::infinity(), "-inf"}}) {
    const std::string text = fmt::format(
        "tensor 'm.weight_scale' has the scale {} for group 1 of row 1; expected a "
        "finite number",
        shown);
    expect_refusal(int4_tensors(scale), kInt4, text);
    TempDir dir;
    write_checkpoint(dir.path(), int4_tensors(scale), alone(kInt4));
    const WeightFiles files(dir.path());
    EXPECT_ERROR_SAYS(read_row_of_blocks(StoredWeight(files, "m.weight"), 1), ExitCode::checkpoint,
                      text);
    EXPECT_NO_THROW(read_row_of_blocks(StoredWeight(files, "m.weight"), 0));
  }
}

TEST(PackedFaults, AScaleOfZeroNeedsValuesOfZero) {
  expect_refusal(int4_tensors(0), kInt4,
                 "tensor 'm.weight_scale' has the scale 0 for group 1 of row 1, whose values are "
                 "not zero; expected a number other than zero");
  IntegerWeight w = random_weight(8, 64, 4, 32, false, 1);
  w.scales[3] = 0;
  std::fill_n(w.numbers.begin() + 64 + 32, 32, 8);
  TempDir dir;
  write_checkpoint(dir.path(), as_words("m", w, DType::bf16, false), alone(kInt4));
  EXPECT_NO_THROW(all_values(StoredWeight(WeightFiles(dir.path()), "m.weight")));
}

TEST(PackedFaults, ScalesAreRequired) {
  expect_refusal(without(int4_tensors(), "m.weight_scale"), kInt4,
                 "tensor 'm.weight_packed' has no scales");
}

// Without one of these tensors the weight would have another form.
TEST(PackedFaults, AnIndexThatNamesTheWrongShardIsBlamed) {
  const auto expect_blamed = [](const std::vector<FileBytes>& tensors, const std::string& config,
                                const std::string& wrong, const std::string& text) {
    SCOPED_TRACE(wrong);
    TempDir dir;
    write_checkpoint(dir.path(), tensors, alone(config));
    write_wrong_index(dir.path(), [&](std::string_view name) { return name == wrong; });
    EXPECT_ERROR_SAYS(all_values(StoredWeight(WeightFiles(dir.path()), "m.weight")),
                      ExitCode::checkpoint,
                      fmt::format("{} to '{}', but it is in '{}': download the index again", text,
                                  dir / "b.safetensors", dir / "a.safetensors"));
  };
  for (const std::string part : {"m.weight_scale", "m.weight_shape"})
    expect_blamed(int4_tensors(), kInt4, part,
                  fmt::format("tensor '{}' is missing\n  the index assigns it", part));
  expect_blamed(int4_tensors(), kInt4, "m.weight_packed",
                "tensor 'm.weight' is missing\n  the index assigns 'm.weight_packed'");
  expect_blamed(
      int4_tensors(0.5f, true), compressed_tensors_config("pack-quantized", 4, "group", 32, false),
      "m.weight_zero_point", "tensor 'm.weight_zero_point' is missing\n  the index assigns it");
}

// The index of a model that was packed later.
TEST(PackedFaults, AnIndexMayNameThePlainWeight) {
  TempDir dir;
  write_checkpoint(dir.path(), int4_tensors(), alone(kInt4));
  const std::vector<float> want = all_values(StoredWeight(WeightFiles(dir.path()), "m.weight"));
  write_wrong_index(dir.path(), [](std::string_view) { return false; });
  dir.write("model.safetensors.index.json",
            R"({"weight_map":{"m.weight":"a.safetensors","b":"b.safetensors"}})");
  EXPECT_EQ(all_values(StoredWeight(WeightFiles(dir.path()), "m.weight")), want);
}

TEST(PackedFaults, ScalesOfAnotherFormShowBothShapes) {
  expect_refusal(
      with(int4_tensors(),
           float_bytes("m.weight_scale", DType::bf16, {4, 4}, std::vector<float>(16, 1))),
      kInt4,
      "tensor 'm.weight_scale' is bf16[4, 4], but 'm.weight_packed' has 8 rows of 64 values; "
      "expected [8, groups], [8, 1] or [1]");
  expect_refusal(
      with(int4_tensors(),
           float_bytes("m.weight_scale", DType::bf16, {8, 3}, std::vector<float>(24, 1))),
      kInt4,
      "tensor 'm.weight_scale' has 3 groups for rows of 64 values, which they do not divide");
  expect_refusal(with(int4_tensors(), file_bytes<std::int32_t>("m.weight_scale", DType::i32, {8, 2},
                                                               std::vector<std::int32_t>(16, 1))),
                 kInt4,
                 "tensor 'm.weight_scale' has element type i32; expected bf16 or f16 or f32");
}

TEST(PackedFaults, IntegersHaveNoGlobalScale) {
  expect_refusal(
      with(int4_tensors(), file_bytes<float>("m.weight_global_scale", DType::f32, {1}, {2})), kInt4,
      "tensor 'm.weight_global_scale' belongs to 'm.weight_packed', whose integers have no global "
      "scale");
}

TEST(PackedFaults, TheShapeMustFitTheWords) {
  expect_refusal(without(int4_tensors(), "m.weight_shape"), kInt4,
                 "tensor 'm.weight_packed' has no shape beside it");
  for (const auto& [rows, columns, text] :
       {std::tuple{9, 64,
                   "tensor 'm.weight_shape' says [9, 64], but 'm.weight_packed' is i32[8, 8]"},
        {8, 65, "tensor 'm.weight_shape' says [8, 65], but"},
        {8, -1, "tensor 'm.weight_shape' says [8, -1], but"},
        {8, 40,
         "tensor 'm.weight_packed' is i32[8, 8] for a weight of [8, 40]; expected [8, 5] of "
         "4 bits or [8, 10] of 8 bits"}})
    expect_refusal(with(int4_tensors(), file_bytes<std::int64_t>("m.weight_shape", DType::i64, {2},
                                                                 {rows, columns})),
                   kInt4, text);
}

TEST(PackedFaults, ZeroPointsMustFitTheScales) {
  expect_refusal(
      with(int4_tensors(0.5f, true),
           file_bytes("m.weight_zero_point", DType::i32, {8, 2}, std::vector<std::int32_t>(16, 0))),
      kInt4,
      "tensor 'm.weight_zero_point' is i32[8, 2], but the scales are bf16[8, 2]; expected "
      "[1, 2]");
}

TEST(PackedFaults, GroupsOfAnIndexMustExist) {
  std::vector<std::int32_t> index(64, 0);
  index[5] = 2;
  expect_refusal(with(gptq_tensors(), file_bytes("m.g_idx", DType::i32, {64}, index)),
                 gptq_config(4, 32, true, 1),
                 "tensor 'm.g_idx' has group 2 at column 5; expected 0 to 1");
  expect_refusal(with(gptq_tensors(),
                      file_bytes("m.g_idx", DType::i32, {32}, std::vector<std::int32_t>(32, 0))),
                 gptq_config(4, 32, true, 1),
                 "tensor 'm.g_idx' is i32[32]; expected the groups of 64 columns");
}

// compressed-tensors writes -1 for all columns of a weight in order, GPTQ for none.
TEST(PackedFaults, AnIndexOfMinusOneIsUnusedAsAWhole) {
  std::vector<std::int32_t> index(64, 0);
  std::fill_n(index.begin() + 32, 31, 1);
  index[63] = -1;
  const std::string text = "has group -1 at column 63; expected 0 to 1";
  const std::string reordered =
      compressed_tensors_config("pack-quantized", 4, "group", 32, true, R"(, "actorder": "group")");
  expect_refusal(with(gptq_tensors(), file_bytes("m.g_idx", DType::i32, {64}, index)),
                 gptq_config(4, 32, true, 1), "tensor 'm.g_idx' " + text);
  expect_refusal(with(int4_tensors(), file_bytes("m.weight_g_idx", DType::i32, {64}, index)),
                 reordered, "tensor 'm.weight_g_idx' " + text);
  index.assign(64, -1);
  expect_refusal(with(gptq_tensors(), file_bytes("m.g_idx", DType::i32, {64}, index)),
                 gptq_config(4, 32, true, 1), "tensor 'm.g_idx' has group -1 at column 0");
  const auto values_of = [](const std::vector<FileBytes>& tensors, const std::string& config) {
    TempDir dir;
    write_checkpoint(dir.path(), tensors, alone(config));
    return all_values(StoredWeight(WeightFiles(dir.path()), "m.weight"));
  };
  EXPECT_EQ(values_of(with(int4_tensors(), file_bytes("m.weight_g_idx", DType::i32, {64}, index)),
                      reordered),
            values_of(int4_tensors(), kInt4));
}

TEST(PackedFaults, ReorderedGptqNeedsItsIndex) {
  std::string config = gptq_config(4, 32, true, 1);
  config.replace(config.find("\"desc_act\": false"), 17, "\"desc_act\": true");
  expect_refusal(without(gptq_tensors(), "m.g_idx"), config, "tensor 'm.qweight' has no 'g_idx'");
}

TEST(PackedFaults, TheOrderMustMatchTheConfig) {
  const auto awq = as_awq("m", random_weight(16, 64, 4, 32, true, 1), DType::f16);
  expect_refusal(awq, gptq_config(4, 32, false, 1),
                 "tensor 'm.qweight' is i32[64, 2] and its scales are f16[2, 16], which does "
                 "not fit the order of gptq with 4 bits: expected [columns / 8, 16]");
  expect_refusal(gptq_tensors(false), awq_config(32),
                 "tensor 'm.qweight' is i32[8, 16] and its scales are f16[2, 16], which does "
                 "not fit the order of awq with 4 bits: expected [columns, 2]");
}

TEST(PackedFaults, BitsAndGroupsOfGptqMustFitTheShapes) {
  expect_refusal(gptq_tensors(), gptq_config(8, 32, true, 1),
                 "tensor 'm.scales' has 2 groups; expected 1, of 32 columns each in 32 columns");
  expect_refusal(gptq_tensors(), gptq_config(4, 16, true, 1),
                 "tensor 'm.scales' has 2 groups; expected 4, of 16 columns each in 64 columns");
  expect_refusal(without(gptq_tensors(), "m.qzeros"), gptq_config(4, 32, true, 1),
                 "tensor 'm.qweight' has no zero points");
}

TEST(PackedFaults, SymmetricGptqHasOneZeroPoint) {
  IntegerWeight w = random_weight(16, 64, 4, 32, false, 1);
  w.zeros[5] = 3;  // row 2, group 1
  expect_refusal(as_gptq("m", w, DType::f16, 1), gptq_config(4, 32, true, 1),
                 "tensor 'm.qzeros' has the zero point 3 for group 1 of row 2; expected 8");
  // Version 2 stores the numbers themselves, so that the other version is found.
  expect_refusal(gptq_tensors(), gptq_config(4, 32, true, 2),
                 "tensor 'm.qzeros' has the zero point 7 for group 0 of row 0; expected 8");
}

TEST(PackedFaults, TheGlobalScaleOfNvfp4DividesTheOthers) {
  const std::string config =
      compressed_tensors_config("nvfp4-pack-quantized", 4, "tensor_group", 16, true, "", "float");
  const std::vector<FileBytes> tensors = {
      file_bytes("m.weight_packed", DType::u8, {2, 32}, std::vector<std::uint8_t>(64, 0x12)),
      file_bytes("m.weight_scale", DType::f8_e4m3, {2, 4}, std::vector<std::uint8_t>(8, 0x38)),
      file_bytes<float>("m.weight_global_scale", DType::f32, {1}, {100})};
  for (const float global : {0.f, -1.f})
    expect_refusal(
        with(tensors, file_bytes<float>("m.weight_global_scale", DType::f32, {1}, {global})),
        config,
        fmt::format("tensor 'm.weight_global_scale' is {}; expected a positive number", global));
  expect_refusal(without(tensors, "m.weight_global_scale"), config,
                 "tensor 'm.weight_packed' has no global scale");
  std::vector<std::uint8_t> scales(8, 0x38);
  scales[6] = 0x7f;
  expect_refusal(with(tensors, file_bytes("m.weight_scale", DType::f8_e4m3, {2, 4}, scales)),
                 config, "tensor 'm.weight_scale' has the scale nan for group 2 of row 1");
  scales[6] = 0xb8;
  expect_refusal(with(tensors, file_bytes("m.weight_scale", DType::f8_e4m3, {2, 4}, scales)),
                 config,
                 "tensor 'm.weight_scale' has the scale -1 for group 2 of row 1; expected a finite "
                 "positive number");
}

// NVFP4 has a scale for 16 values, MXFP4 one for 32.
TEST(PackedFaults, NoPartOfFp4IsIgnored) {
  const std::vector<FileBytes> pairs = {
      file_bytes("m.weight_packed", DType::u8, {2, 32}, std::vector<std::uint8_t>(64, 0x12))};
  const std::vector<FileBytes> mxfp4 = with(
      pairs, file_bytes("m.weight_scale", DType::u8, {2, 2}, std::vector<std::uint8_t>(4, 127)));
  const std::vector<FileBytes> nvfp4 =
      with(with(pairs, file_bytes("m.weight_scale", DType::f8_e4m3, {2, 4},
                                  std::vector<std::uint8_t>(8, 0x38))),
           file_bytes<float>("m.weight_global_scale", DType::f32, {1}, {100}));
  const std::string mx =
      compressed_tensors_config("mxfp4-pack-quantized", 4, "group", 32, true, "", "float");
  const std::string nv =
      compressed_tensors_config("nvfp4-pack-quantized", 4, "tensor_group", 16, true, "", "float");
  const auto shape = [](std::int64_t rows, std::int64_t columns) {
    return file_bytes<std::int64_t>("m.weight_shape", DType::i64, {2}, {rows, columns});
  };
  const auto index = [](std::int32_t first) {
    std::vector<std::int32_t> groups(64, 1);
    std::fill_n(groups.begin(), 32, 0);
    groups[0] = first;
    return file_bytes("m.weight_g_idx", DType::i32, {64}, groups);
  };
  for (const auto& [tensors, config] : {std::pair{mxfp4, mx}, {nvfp4, nv}}) {
    expect_refusal(with(tensors, file_bytes("m.weight_zero_point", DType::u8, {2, 2},
                                            std::vector<std::uint8_t>(4, 7))),
                   config,
                   "tensor 'm.weight_zero_point' belongs to 'm.weight_packed', whose FP4 numbers "
                   "have no zero points");
    expect_refusal(with(tensors, shape(5, 7)), config,
                   "tensor 'm.weight_shape' says [5, 7], but 'm.weight_packed' has the values of "
                   "[2, 64]");
  }
  expect_refusal(with(mxfp4, index(1)), mx,
                 "tensor 'm.weight_g_idx' gives the columns of 'm.weight_packed' another order");
  expect_refusal(with(mxfp4, index(2)), mx,
                 "tensor 'm.weight_g_idx' has group 2 at column 0; expected 0 to 1");
  TempDir dir;
  write_checkpoint(dir.path(), with(with(mxfp4, shape(2, 64)), index(0)), alone(mx));
  EXPECT_NO_THROW(all_values(StoredWeight(WeightFiles(dir.path()), "m.weight")));
}

TEST(PackedFaults, ScalesOfMxfp4AreNumbers) {
  const std::string config =
      compressed_tensors_config("mxfp4-pack-quantized", 4, "group", 32, true, "", "float");
  expect_refusal(
      {file_bytes("m.weight_packed", DType::u8, {2, 16}, std::vector<std::uint8_t>(32, 0x12)),
       file_bytes<std::uint8_t>("m.weight_scale", DType::u8, {2, 1}, {127, 255})},
      config,
      "tensor 'm.weight' has a scale that is not a number at element 1 of 'm.weight_scale'");
}

TEST(PackedFaults, ScalesOfF8ArePositive) {
  const std::string config =
      compressed_tensors_config("float-quantized", 8, "channel", 0, true, "", "float");
  for (const auto& [scale, shown] :
       {std::pair{std::numeric_limits<float>::quiet_NaN(), "nan"}, {-2.f, "-2"}})
    expect_refusal(
        {file_bytes("m.weight", DType::f8_e4m3, {2, 4}, std::vector<std::uint8_t>(8, 0x38)),
         float_bytes("m.weight_scale", DType::bf16, {2, 1}, {1, scale})},
        config,
        fmt::format("tensor 'm.weight' has the scale {} at element 1 of 'm.weight_scale'; expected "
                    "a finite positive number",
                    shown));
}

TEST(PackedFaults, AScaleOfZeroInF8NeedsValuesOfZero) {
  const std::string config =
      compressed_tensors_config("float-quantized", 8, "channel", 0, true, "", "float");
  const auto tensors = [](std::uint8_t second_row, std::int64_t rows, std::vector<float> scales) {
    std::vector<std::uint8_t> values(8, 0x38);
    std::fill_n(values.begin() + 4, 4, second_row);
    return std::vector<FileBytes>{
        file_bytes("m.weight", DType::f8_e4m3, {2, 4}, values),
        float_bytes("m.weight_scale", DType::bf16, {rows, 1}, std::move(scales))};
  };
  const auto text = [](int element) {
    return fmt::format(
        "tensor 'm.weight' has the scale 0 at element {} of 'm.weight_scale' for "
        "values that are not zero; expected a positive number",
        element);
  };
  expect_refusal(tensors(0x38, 2, {1, 0}), config, text(1));
  expect_refusal(tensors(0x38, 1, {0}), config, text(0));
  TempDir dir;
  write_checkpoint(dir.path(), tensors(0x80, 2, {1, 0}), alone(config));
  EXPECT_NO_THROW(all_values(StoredWeight(WeightFiles(dir.path()), "m.weight")));
}

TEST(PackedFaults, PackedTensorsNeedTheirConfig) {
  expect_refusal(int4_tensors(), R"({"quant_method": "fp8"})",
                 "tensor 'm.weight_packed' is packed, but quantization_config of config.json has "
                 "the method \"fp8\"");
  expect_refusal(gptq_tensors(), kInt4,
                 "tensor 'm.qweight' is packed, but quantization_config of config.json has the "
                 "method \"compressed-tensors\"");
  TempDir dir;
  write_checkpoint(dir.path(), gptq_tensors(), "{}");
  EXPECT_ERROR_SAYS(WeightFiles(dir.path()), ExitCode::checkpoint,
                    "tensor 'm.qweight' is packed, but quantization_config of config.json is "
                    "missing\n"
                    "  expected quant_method \"gptq\" or \"awq\": use the config.json that belongs "
                    "to these weights");
}

TEST(PackedFaults, AWeightIsStoredOnce) {
  expect_refusal(with(int4_tensors(),
                      float_bytes("m.weight", DType::bf16, {8, 64}, std::vector<float>(512, 1))),
                 kInt4, "tensors 'm.weight_packed' and 'm.weight' are the same weight");
}

// Refuses quantization_config itself.
void expect_config_refusal(const std::string& config, const std::string& text) {
  TempDir dir;
  write_checkpoint(dir.path(), {float_bytes("w", DType::f32, {1}, {0})}, alone(config));
  EXPECT_ERROR_SAYS(WeightFiles(dir.path()), ExitCode::checkpoint, text);
}

TEST(QuantizationConfig, OtherMethodsAreRefusedInWords) {
  for (const auto& [method, reason] :
       {std::pair{"bitsandbytes", "its scales are quantised again"},
        {"aqlm", "its weights are sums of vectors from codebooks"},
        {"hqq", "the packing of each module is in tensors of metadata beside it"},
        {"quanto", "its tensors are stored with the state of Python classes"},
        {"eetq", "its int8 weights are interleaved for one kernel of GPUs"},
        {"torchao", "its tensors are pickled Python classes"},
        {"vptq", "its weights are vectors from codebooks"},
        {"spqr", "its weights have sparse outliers beside the groups"},
        {"higgs", "its weights are rotated and come from a grid of vectors"},
        {"bitnet", "its weights are ternary, and its layers quantise activations"},
        {"auto-round", "its variants pack weights in several orders"},
        {"modelopt", "its scales have other names and another definition"},
        {"quark", "its layouts depend on the exporter"},
        {"fbgemm_fp8", "its activations have an upper bound that changes the results"}}) {
    const std::string config = fmt::format(R"({{"quant_method": "{}"}})", method);
    expect_config_refusal(
        config, fmt::format("'quantization_config.quant_method' must be \"compressed-tensors\", "
                            "\"fp8\", \"mxfp4\", \"gptq\" or \"awq\", the methods that lamina "
                            "reads; got \"{}\"\n  {} cannot be read: {}",
                            method, method, reason));
  }
  expect_config_refusal(R"({"quant_method": "new"})",
                        "got \"new\"\n  use the unquantised checkpoint of the same model");
}

TEST(QuantizationConfig, OtherVariantsAreRefusedInWords) {
  expect_config_refusal(R"({"quant_method": "gptq", "bits": 3, "group_size": 128})",
                        "'quantization_config.bits' must be 4 or 8, got 3");
  expect_config_refusal(
      R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": "marlin"})",
      "'quantization_config.checkpoint_format' must be \"gptq\" or \"gptq_v2\"");
  expect_config_refusal(R"({"quant_method": "gptq", "bits": 4, "group_size": 0})",
                        "'quantization_config.group_size' must be positive, or -1 for whole rows");
  expect_config_refusal(
      R"({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemv"})",
      "'quantization_config.version' must be \"gemm\", the order of AWQ that lamina reads; got "
      "\"gemv\"");
  expect_config_refusal(
      compressed_tensors_config("marlin-24", 4, "group", 128, true),
      "'quantization_config.format' must be pack-quantized, int-quantized, "
      "float-quantized, mxfp8-quantized, mxfp4-pack-quantized or nvfp4-pack-quantized, the formats "
      "that lamina reads; got \"marlin-24\"");
  expect_config_refusal(
      compressed_tensors_config("pack-quantized", 3, "group", 128, true),
      "'quantization_config.config_groups.group_0.weights.num_bits' must be 4 or 8, got 3");
  expect_config_refusal(
      compressed_tensors_config("pack-quantized", 4, "zigzag", 128, true),
      "'quantization_config.config_groups.group_0.weights.strategy' must be tensor or channel or "
      "group or block or tensor_group; got \"zigzag\"");
  expect_config_refusal(
      compressed_tensors_config("pack-quantized", 4, "group", 128, true, "", "posit"),
      "'quantization_config.config_groups.group_0.weights.type' must be int or float; got "
      "\"posit\"");
  expect_config_refusal(
      compressed_tensors_config("pack-quantized", 4, "group", 128, true, R"(, "actorder": "up")"),
      "'quantization_config.config_groups.group_0.weights.actorder' must be group or dynamic or "
      "weight or static; got \"up\"");
  for (const char* dynamic : {"true", "\"local\""})
    expect_config_refusal(
        compressed_tensors_config("pack-quantized", 4, "group", 128, true,
                                  fmt::format(R"(, "dynamic": {})", dynamic)),
        fmt::format("'quantization_config.config_groups.group_0.weights.dynamic' must be false, "
                    "because the scales of weights are stored; got {}",
                    dynamic));
}

TEST(QuantizationConfig, AVariantIsNamedUnderEitherKey) {
  const auto gptq = [](const std::string& more) {
    return fmt::format(R"({{"quant_method": "gptq", "bits": 4, "group_size": 32, {}}})", more);
  };
  expect_config_refusal(gptq(R"("checkpoint_format": null, "format": "marlin")"),
                        "'quantization_config.format' must be \"gptq\" or \"gptq_v2\"");
  expect_config_refusal(gptq(R"("checkpoint_format": "gptq", "format": "gptq_v2")"),
                        "'quantization_config.checkpoint_format' is \"gptq\", but 'format' beside "
                        "it is \"gptq_v2\"; expected one value for both");
  const auto awq = [](const std::string& more) {
    return fmt::format(R"({{"quant_method": "awq", "group_size": 32, {}}})", more);
  };
  for (const char* version : {"", R"("version": null, )"})
    expect_config_refusal(
        awq(fmt::format(R"({}"bits": 4, "format": "gemv_fast")", version)),
        "'quantization_config.format' must be \"gemm\", the order of AWQ that lamina reads; got "
        "\"gemv_fast\"");
  expect_config_refusal(awq(R"("bits": 4, "version": "gemm", "format": "gemv")"),
                        "'quantization_config.version' is \"gemm\", but 'format' beside it is");
  expect_config_refusal(awq(R"("bits": 4, "backend": "llm-awq")"),
                        "'quantization_config.backend' must not be \"llm-awq\"");
  expect_config_refusal(awq(R"("bits": 4, "w_bit": 8)"),
                        "'quantization_config.bits' is 4, but 'w_bit' beside it is 8");
  expect_config_refusal(awq(R"("bits": 4, "q_group_size": 64)"),
                        "'quantization_config.group_size' is 32, but 'q_group_size' beside it is");
  expect_config_refusal(awq(R"("bits": null, "w_bit": 8)"),
                        "'quantization_config.w_bit' must be 4, got 8");
}

TEST(QuantizationConfig, AListIsNoSetOfDynamicChanges) {
  for (const auto& [dynamic, text] :
       {std::pair{"[1]", "'quantization_config.dynamic' must be an object of patterns; got"},
        {R"({"+:.*down.*": [8]})", "must be empty: lamina reads one number of bits"}})
    expect_config_refusal(
        fmt::format(R"({{"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {}}})",
                    dynamic),
        text);
}

TEST(QuantizationConfig, SizesBelongToTheirStrategy) {
  for (const char* strategy : {"tensor", "channel", "block"})
    expect_config_refusal(
        compressed_tensors_config("pack-quantized", 4, strategy, 64, true),
        fmt::format("'quantization_config.config_groups.group_0.weights.group_size' must be null "
                    "with the strategy \"{}\", which has no groups; got 64",
                    strategy));
  expect_config_refusal(
      compressed_tensors_config("float-quantized", 8, "channel", 0, true,
                                R"(, "block_structure": [128, 128])", "float"),
      "'quantization_config.config_groups.group_0.weights.block_structure' must be null without "
      "the strategy \"block\"; got an array of 2");
}

// Returns a configuration with one group of `targets`, JSON.
std::string config_for(const std::string& targets, const std::string& more = "") {
  return fmt::format(
      R"({{"quant_method": "compressed-tensors", "format": "pack-quantized", {}"config_groups":
          {{"group_0": {{"targets": {}, "weights": {{"num_bits": 4}}}}}}}})",
      more, targets);
}

TEST(QuantizationConfig, GroupsNameTheirModules) {
  for (const auto& [targets, got] :
       {std::pair{"[]", "an array of 0"}, {"null", "null"}, {R"("Linear")", R"("Linear")"}})
    expect_config_refusal(config_for(targets),
                          fmt::format("'quantization_config.config_groups.group_0.targets' must be "
                                      "a list of modules or classes; got {}",
                                      got));
}

TEST(QuantizationConfig, AStatusIsOneOfCompressedTensors) {
  expect_config_refusal(config_for(R"(["Linear"])", R"("quantization_status": "packed", )"),
                        "'quantization_config.quantization_status' must be initialized or "
                        "calibration or frozen or compressed; got \"packed\"");
}

}  // namespace
}  // namespace lamina::io
