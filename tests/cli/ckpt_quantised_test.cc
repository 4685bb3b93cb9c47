// lamina ckpt diff and average: packed weights and blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <tuple>

#include "cli/spoilt_model.h"
#include "cli/trained_run.h"
#include "core/json.h"
#include "io/weight_files.h"
#include "support/packed_checkpoint.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::as_awq;
using lamina::testing::as_bytes;
using lamina::testing::as_gptq;
using lamina::testing::as_words;
using lamina::testing::awq_config;
using lamina::testing::compressed_tensors_config;
using lamina::testing::file_bytes;
using lamina::testing::FileBytes;
using lamina::testing::Finished;
using lamina::testing::float_bytes;
using lamina::testing::gptq_config;
using lamina::testing::IntegerWeight;
using lamina::testing::random_weight;
using lamina::testing::TempDir;
using lamina::testing::write_checkpoint;
using ::testing::HasSubstr;
using ::testing::Not;

using Tensors = std::vector<FileBytes>;

// Writes `folder`/`name`, a directory with these tensors.
std::string packed_directory(const TempDir& folder, const std::string& name, const Tensors& tensors,
                             const std::string& quantization_config) {
  fs::create_directories(folder / name);
  write_checkpoint(folder / name, tensors, lamina::testing::alone(quantization_config));
  return folder / name;
}

struct PackedLayout {
  std::string type;  // of the matrix, in reports
  int bits;
  std::string config, scales, zero_points;
  std::function<Tensors(const IntegerWeight&)> tensors;
};

std::vector<PackedLayout> packed_layouts() {
  return {{"packed int4[16, 64]", 4,
           compressed_tensors_config("pack-quantized", 4, "group", 32, false), "m.weight_scale",
           "m.weight_zero_point", [](auto& w) { return as_words("m", w, DType::bf16, true); }},
          {"int8[16, 64]", 8, compressed_tensors_config("int-quantized", 8, "group", 32, false),
           "m.weight_scale", "m.weight_zero_point",
           [](auto& w) { return as_bytes("m", w, DType::bf16, true); }},
          {"gptq int4[16, 64]", 4, gptq_config(4, 32, false, 1), "m.scales", "m.qzeros",
           [](auto& w) { return as_gptq("m", w, DType::f16, 1); }},
          {"awq int4[16, 64]", 4, awq_config(32), "m.scales", "m.qzeros",
           [](auto& w) { return as_awq("m", w, DType::f16); }}};
}

IntegerWeight weight_of(const PackedLayout& layout) {
  return random_weight(16, 64, layout.bits, 32, true, 3);
}

void expect_changed(const std::string& a, const std::string& b, const std::string& type,
                    std::int64_t num_different, const std::string& part) {
  const Finished f = ckpt({"diff", a, b});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("model: 0 identical, 1 not\n"));
  EXPECT_THAT(f.out, HasSubstr(fmt::format("  values     m.weight  {}  {} of 1024 differ, max |a",
                                           type, num_different)));
  EXPECT_THAT(f.out, HasSubstr(fmt::format("  ({})\n", part)));
}

TEST(CkptDiffPacked, EqualCopiesAreTheSame) {
  for (const PackedLayout& layout : packed_layouts()) {
    SCOPED_TRACE(layout.type);
    const TempDir folder;
    const Tensors tensors = layout.tensors(weight_of(layout));
    const Finished f = ckpt({"diff", packed_directory(folder, "a", tensors, layout.config),
                             packed_directory(folder, "b", tensors, layout.config)});
    EXPECT_EQ(f.code, 0) << f.out << f.err;
    EXPECT_THAT(f.out, HasSubstr("model: 1 identical, 0 not\n"));
  }
}

TEST(CkptDiffPacked, OtherScalesAndZeroPointsAreOtherValues) {
  for (const PackedLayout& layout : packed_layouts()) {
    SCOPED_TRACE(layout.type);
    const TempDir folder;
    const IntegerWeight w = weight_of(layout);
    const std::string a = packed_directory(folder, "a", layout.tensors(w), layout.config);
    IntegerWeight doubled = w;
    for (float& scale : doubled.scales) scale *= 2;
    const std::vector<float> values = w.values();
    expect_changed(
        a, packed_directory(folder, "doubled", layout.tensors(doubled), layout.config), layout.type,
        std::ranges::count_if(values, [](float value) { return value != 0; }), layout.scales);
    IntegerWeight shifted = w;
    shifted.zeros[0] ^= 1;
    expect_changed(a, packed_directory(folder, "shifted", layout.tensors(shifted), layout.config),
                   layout.type, 32, layout.zero_points);
  }
}

TEST(CkptDiffPacked, AnotherGlobalScaleIsAnotherWeight) {
  const TempDir folder;
  const auto model = [&](const std::string& name, float global) {
    return packed_directory(
        folder, name,
        {file_bytes("m.weight_packed", DType::u8, {16, 32}, std::vector<std::uint8_t>(512, 0x22)),
         file_bytes("m.weight_scale", DType::f8_e4m3, {16, 4}, std::vector<std::uint8_t>(64, 0x38)),
         file_bytes<float>("m.weight_global_scale", DType::f32, {1}, {global})},
        compressed_tensors_config("nvfp4-pack-quantized", 4, "tensor_group", 16, true, "",
                                  "float"));
  };
  EXPECT_EQ(ckpt({"diff", model("a", 2), model("b", 2)}).code, 0);
  expect_changed(folder / "a", model("c", 4), "packed fp4[16, 64]", 1024, "m.weight_global_scale");
  const Finished f = ckpt({"diff", folder / "a", model("d", std::nanf(""))});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("  values     m.weight  u8[16, 32]  (m.weight_global_scale)\n"));
}

// The numbers of both are i32[16, 8].
TEST(CkptDiffPacked, WeightsOfOtherShapesInEqualWordsDiffer) {
  const TempDir folder;
  const std::string a = packed_directory(
      folder, "a", as_words("m", random_weight(16, 64, 4, 64, false, 3), DType::bf16, false),
      compressed_tensors_config("pack-quantized", 4, "channel", 0, true));
  const std::string b = packed_directory(
      folder, "b", as_words("m", random_weight(16, 32, 8, 32, false, 3), DType::bf16, false),
      compressed_tensors_config("pack-quantized", 8, "channel", 0, true));
  for (const auto& [left, right, types] :
       {std::tuple(a, b, "packed int4[16, 64] | packed int8[16, 32]"),
        std::tuple(b, a, "packed int8[16, 32] | packed int4[16, 64]")}) {
    const Finished f = ckpt({"diff", left, right});
    EXPECT_EQ(f.code, 3) << f.err;
    EXPECT_THAT(f.out, HasSubstr(fmt::format("  shape      m.weight  {}  (m.weight_packed, "
                                             "m.weight_scale, m.weight_shape)\n",
                                             types)));
  }
}

TEST(CkptDiffPacked, NamesMissingParts) {
  const TempDir folder;
  const std::string config = compressed_tensors_config("pack-quantized", 4, "group", 32, true);
  const IntegerWeight w = random_weight(16, 64, 4, 32, false, 3);
  const Tensors tensors = as_words("m", w, DType::bf16, false);
  const std::string a = packed_directory(folder, "a", tensors, config);
  const auto expect_parts = [&](const std::string& left, const std::string& right,
                                const std::string& parts) {
    const Finished f = ckpt({"diff", left, right});
    EXPECT_EQ(f.code, 3) << f.err;
    EXPECT_THAT(f.out, HasSubstr(fmt::format("  parts      m.weight  packed int4[16, 64]  0 of "
                                             "1024 differ, max |a - b| 0, relative 0  ({})\n",
                                             parts)));
  };
  Tensors more = tensors;
  more.push_back(file_bytes<float>("m.input_scale", DType::f32, {1}, {0.5f}));
  const std::string b = packed_directory(folder, "b", more, config);
  expect_parts(a, b, "m.input_scale only in B");
  expect_parts(b, a, "m.input_scale only in A");
  more.back() = file_bytes<float>("m.input_scale", DType::f32, {1}, {0.25f});
  expect_parts(b, packed_directory(folder, "c", more, config), "m.input_scale");
  more.back() = file_bytes("m.weight_g_idx", DType::i32, {64}, w.group_of);
  const std::string indexed = packed_directory(folder, "indexed", more, config);
  expect_parts(a, indexed, "m.weight_g_idx only in B");

  const JsonDocument json =
      JsonDocument::parse(ckpt({"diff", a, indexed, "--json"}).out, "ckpt diff");
  for (JsonValue tensor : json.root().at("model").at("tensors").elements())
    for (JsonValue part : tensor.at("parts").elements())
      EXPECT_EQ(part.as_string(), "m.weight_g_idx only in B");
}

// They belong to a module without a weight.
TEST(CkptDiffPacked, ComparesScalesOfKeys) {
  const TempDir folder;
  const std::string config = compressed_tensors_config("pack-quantized", 4, "group", 32, true);
  Tensors tensors = as_words("m", random_weight(16, 64, 4, 32, false, 3), DType::bf16, false);
  const std::string a = packed_directory(folder, "a", tensors, config);
  tensors.push_back(file_bytes<float>("attention.k_scale", DType::f32, {1}, {0.5f}));
  const std::string b = packed_directory(folder, "b", tensors, config);
  const Finished missing = ckpt({"diff", a, b});
  EXPECT_EQ(missing.code, 3) << missing.err;
  EXPECT_THAT(missing.out, HasSubstr("model: 1 identical, 1 not\n"));
  EXPECT_THAT(missing.out, HasSubstr("  only in B  attention.k_scale  f32[1]\n"));
  tensors.back() = file_bytes<float>("attention.k_scale", DType::f32, {1}, {1.f});
  const Finished changed = ckpt({"diff", b, packed_directory(folder, "c", tensors, config)});
  EXPECT_EQ(changed.code, 3) << changed.err;
  EXPECT_THAT(changed.out, HasSubstr("  values     attention.k_scale  f32[1]  1 of 1 differ"));
}

TEST(CkptDiffPacked, SettingsMayChangeTheValues) {
  const TempDir folder;
  const Tensors tensors = as_gptq("m", random_weight(16, 64, 4, 64, true, 3), DType::f16, 1);
  const std::string a = packed_directory(folder, "a", tensors, gptq_config(4, 64, false, 1));
  expect_changed(a, packed_directory(folder, "b", tensors, gptq_config(4, 64, false, 2)),
                 "gptq int4[16, 64]", 1024, "quantization_config");
  // A group of a whole row.
  const Finished f =
      ckpt({"diff", a, packed_directory(folder, "c", tensors, gptq_config(4, -1, false, 1))});
  EXPECT_EQ(f.code, 0) << f.out << f.err;
}

TEST(CkptDiffPacked, ComparesTheValuesWithPlainOnes) {
  const TempDir folder;
  const IntegerWeight w = random_weight(16, 64, 4, 32, false, 3);
  const std::string packed =
      packed_directory(folder, "packed", as_words("m", w, DType::bf16, false),
                       compressed_tensors_config("pack-quantized", 4, "group", 32, true));
  fs::create_directories(folder / "plain");
  write_checkpoint(folder / "plain", {float_bytes("m.weight", DType::f32, {16, 64}, w.values())},
                   "{}");
  const Finished f = ckpt({"diff", packed, folder / "plain"});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("  type       m.weight  packed int4[16, 64] | f32[16, 64]  0 of "
                               "1024 differ"));
}

// Rows of f8 values 1 with the scales 1 and 2, or 1.5 at one place.
Tensors f8_tensors(bool changed) {
  std::vector<std::uint8_t> values(2 * 32, 0x38);
  if (changed) values[40] = 0x3c;
  return {file_bytes("m.weight", DType::f8_e4m3, {2, 32}, values),
          float_bytes("m.weight_scale", DType::bf16, {2, 1}, {1, 2})};
}

TEST(CkptDiffScaled, CountsValuesOfF8TimesTheirScales) {
  const TempDir folder;
  const std::string config =
      compressed_tensors_config("float-quantized", 8, "channel", 0, true, "", "float");
  const std::string a = packed_directory(folder, "a", f8_tensors(false), config);
  const std::string b = packed_directory(folder, "b", f8_tensors(true), config);
  EXPECT_EQ(ckpt({"diff", a, a}).code, 0);
  Finished f = ckpt({"diff", a, b});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("  values     m.weight  f8_e4m3[2, 32]  1 of 64 differ, "
                               "max |a - b| 1, relative 0.5\n"));
  std::vector<float> plain(64, 1);
  std::fill(plain.begin() + 32, plain.end(), 2.f);
  fs::create_directories(folder / "plain");
  write_checkpoint(folder / "plain", {float_bytes("m.weight", DType::f32, {2, 32}, plain)}, "{}");
  f = ckpt({"diff", b, folder / "plain"});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out,
              HasSubstr("  type       m.weight  f8_e4m3[2, 32] | f32[2, 32]  1 of 64 differ"));
  EXPECT_THAT(f.out, HasSubstr("  only in A  m.weight_scale  bf16[2, 1]\n"));
}

TEST(CkptDiffScaled, CountsValuesOfMxfp4) {
  const TempDir folder;
  const auto directory = [&](const std::string& name, std::uint8_t pair) {
    std::vector<std::uint8_t> pairs(2 * 16, 0x22);  // values 1
    pairs[20] = pair;
    return packed_directory(
        folder, name,
        {file_bytes("m.down_proj_blocks", DType::u8, {2, 1, 16}, pairs),
         file_bytes("m.down_proj_scales", DType::u8, {2, 1}, std::vector<std::uint8_t>{127, 128})},
        R"({"quant_method": "mxfp4"})");
  };
  const Finished f = ckpt({"diff", directory("a", 0x22), directory("b", 0x24)});  // one value 2
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("model: 1 identical, 1 not\n"
                               "  values     m.down_proj_blocks  mxfp4[2, 32]  1 of 64 differ, "
                               "max |a - b| 2, relative 1\n"));
}

// Without scales there are no values to compare.
TEST(CkptDiffScaled, F8WithoutScalesIsComparedByItsBytes) {
  const TempDir folder;
  const auto directory = [&](const std::string& name, bool changed) {
    fs::create_directories(folder / name);
    write_checkpoint(folder / name, {f8_tensors(changed)[0]}, "{}");
    return folder / name;
  };
  const Finished f = ckpt({"diff", directory("a", false), directory("b", true)});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("  values     m.weight  f8_e4m3[2, 32]\n"));
}

// Eg int8 without quantization_config, whose scales are numbers in f32.
TEST(CkptDiffScaled, IntegersThatAreNoPairsOfFp4AreComparedByTheirBytes) {
  const TempDir folder;
  for (const auto& [name, type, text] :
       {std::tuple("signed", DType::i8, "i8"), {"unsigned", DType::u8, "u8"}}) {
    const auto directory = [&](const std::string& side, std::uint8_t number) {
      const std::string to = folder / (name + side);
      fs::create_directories(to);
      write_checkpoint(
          to,
          {file_bytes("m.weight", type, {2, 32}, std::vector<std::uint8_t>(64, number)),
           float_bytes("m.weight_scale", DType::f32, {2, 1}, {1, 1})},
          "{}");
      return to;
    };
    const std::string a = directory("a", 1), plain = folder / (name + std::string("plain"));
    Finished f = ckpt({"diff", a, directory("b", 2)});
    EXPECT_EQ(f.code, 3) << f.err;
    EXPECT_THAT(f.out, HasSubstr(fmt::format("  values     m.weight  {}[2, 32]\n", text)));
    fs::create_directories(plain);
    write_checkpoint(plain, {float_bytes("n", DType::f32, {1}, {1})}, "{}");
    f = ckpt({"diff", a, plain});
    EXPECT_EQ(f.code, 3) << f.err;
    EXPECT_THAT(f.out, HasSubstr(fmt::format("  only in A  m.weight  {}[2, 32]\n", text)));
  }
}

TEST(CkptDiffScaled, DamagedScalesAreADifference) {
  const TempDir folder;
  const auto f8 = [&](const std::string& name, bool changed, float scale) {
    Tensors tensors = f8_tensors(changed);
    tensors[1] = float_bytes("m.weight_scale", DType::bf16, {2, 1}, {1, scale});
    return packed_directory(
        folder, name, tensors,
        compressed_tensors_config("float-quantized", 8, "channel", 0, true, "", "float"));
  };
  for (const float scale : {-1.f, std::numeric_limits<float>::quiet_NaN()}) {
    const Finished f = ckpt({"diff", f8("a", false, 1), f8("b", true, scale)});
    EXPECT_EQ(f.code, 3) << f.err;
    EXPECT_THAT(f.out, HasSubstr("  values     m.weight  f8_e4m3[2, 32]\n"));
    EXPECT_THAT(f.out, HasSubstr("  values     m.weight_scale  bf16[2, 1]  1 of 2 differ"));
  }
  const auto mxfp4 = [&](const std::string& name, std::uint8_t pair,
                         const std::vector<std::uint8_t>& scales) {
    return packed_directory(folder, name,
                            {file_bytes("m.down_proj_blocks", DType::u8, {1, 1, 16},
                                        std::vector<std::uint8_t>(16, pair)),
                             file_bytes("m.down_proj_scales", DType::u8,
                                        {1, static_cast<std::int64_t>(scales.size())}, scales)},
                            R"({"quant_method": "mxfp4"})");
  };
  Finished f = ckpt({"diff", mxfp4("c", 0x22, {127}), mxfp4("d", 0x24, {255})});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("  values     m.down_proj_blocks  mxfp4[1, 32]\n"));
  EXPECT_THAT(f.out, HasSubstr("  values     m.down_proj_scales  u8[1, 1]\n"));
  f = ckpt({"diff", folder / "c", mxfp4("e", 0x24, {127, 127})});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("  values     m.down_proj_blocks  u8[1, 1, 16]\n"));
}

// Two formats with blocks of 34 bytes: the type of the scale differs.
TEST(CkptDiffBlocks, EqualBytesOfOtherFormatsDiffer) {
  const TempDir folder;
  const std::vector<std::byte> bytes(2 * 2 * 34, std::byte{0x3c});
  const auto file = [&](const std::string& format) {
    const std::string path = folder / (format + ".safetensors");
    io::write_safetensors(path, {{"m.weight", DType::u8, {2, 2 * 34}}},
                          {{io::blocks_key("m.weight"), format}},
                          [&](const io::TensorSpec&) { return std::span<const std::byte>(bytes); });
    return path;
  };
  const std::string a = file("INT4_64"), b = file("INT4_64_F16");
  EXPECT_EQ(ckpt({"diff", a, a}).code, 0);
  const Finished f = ckpt({"diff", a, b});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(
      f.out,
      HasSubstr("  type       m.weight  INT4_64[2, 128] | INT4_64_F16[2, 128]  256 of 256 differ"));
}

std::string quantised(const TempDir& folder, const std::string& name, const std::string& from) {
  const Finished f = lamina_program({"quantize", from, "--to", folder / name, "--format", "int8"});
  EXPECT_EQ(f.code, 0) << f.err;
  return folder / name;
}

std::vector<float> norm_of(const std::string& model) {
  const io::WeightFiles files(model);
  std::vector<float> out(32);
  std::memcpy(out.data(), files.tensor("model.norm.weight").bytes.data(), 32 * sizeof(float));
  return out;
}

void expect_refused_average(const TempDir& folder, const std::string& a, const std::string& b,
                            const std::string& what) {
  const Finished f = ckpt({"average", a, b, "--to", folder / "refused"});
  EXPECT_EQ(f.code, 4) << f.out;
  EXPECT_THAT(f.err, HasSubstr("error: " + b + ": tensor '"));
  EXPECT_THAT(f.err, HasSubstr(what + " differs from the one in " + a +
                               "; quantised weights and integers have no mean"));
  EXPECT_THAT(f.err, HasSubstr("\n  `lamina ckpt export --dtype bfloat16` writes "));
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("refused")));
}

TEST(CkptAverageQuantised, EqualPackedWeightsAreCopiedWithTheirParts) {
  const TempDir folder;
  const std::string a = quantised(folder, "a", trained_run()),
                    b = quantised(folder, "b", trained_run()), mean = folder / "mean";
  spoil_tensor(b, "model.norm.weight", [](std::span<std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (float& value : values) value *= 3;
    std::memcpy(bytes.data(), values.data(), bytes.size());
  });
  const Finished f = ckpt({"average", a, b, "--to", mean});
  ASSERT_EQ(f.code, 0) << f.err;
  const Finished changed = ckpt({"diff", a, mean});
  EXPECT_EQ(changed.code, 3) << changed.err;
  EXPECT_THAT(changed.out, HasSubstr(" identical, 1 not\n  values     model.norm.weight  f32[32]"));
  std::vector<float> want = norm_of(a);
  for (float& value : want) value *= 2;
  EXPECT_EQ(norm_of(mean), want);
  const Finished text = lamina_program({"decode", "-m", mean, "--ids", "1,2", "-n", "2"});
  EXPECT_EQ(text.code, 0) << text.err;
}

TEST(CkptAverageQuantised, OtherPackedWeightsHaveNoMeanButPlainOnesDo) {
  const TempDir folder;
  const std::string a = quantised(folder, "a", trained_run()),
                    b = quantised(folder, "b", trained_run() + "/checkpoints/step-00000002");
  expect_refused_average(folder, a, b, "(packed)");
  for (const std::string name : {"a", "b"})
    ASSERT_EQ(
        ckpt({"export", folder / name, "--to", folder / (name + "_plain"), "--dtype", "bfloat16"})
            .code,
        0);
  const Finished f =
      ckpt({"average", folder / "a_plain", folder / "b_plain", "--to", folder / "mean"});
  EXPECT_EQ(f.code, 0) << f.err;
}

TEST(CkptAverageQuantised, SuggestsPlainWeightsIfOneModelIsQuantised) {
  const TempDir folder;
  const std::string packed = quantised(folder, "packed", trained_run());
  for (const auto& [a, b] : {std::pair(packed, trained_run()), std::pair(trained_run(), packed)}) {
    const Finished f = ckpt({"average", a, b, "--to", folder / "refused"});
    EXPECT_EQ(f.code, 4) << f.out;
    EXPECT_THAT(f.err,
                HasSubstr("\n  `lamina ckpt export --dtype bfloat16` writes a quantised model "
                          "with plain weights, which have a mean\n"));
    EXPECT_THAT(f.err, Not(HasSubstr("to the same form")));
  }
}

TEST(CkptAverageQuantised, EqualFrozenBlocksAreCopied) {
  const TempDir folder;
  quantised(folder, "base", trained_run());
  const std::string run = folder.write(
      "frozen.toml",
      "[data]\ntrain = \"" LAMINA_SOURCE_DIR
      "/docs/glossary.md\"\nsequence_length = 32\n[train]\nfrom = \"base\"\nsteps = 4\n"
      "batch_size = 2\n[[optimizer.groups]]\nmatch = \"*.attention.*\"\nfrozen = true\n"
      "[checkpoint]\nevery_steps = 2\n[run]\nout = \"frozen\"\n");
  const Finished trained = lamina_program({"train", run, "--quiet"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string a = folder / "frozen/checkpoints/step-00000002",
                    b = folder / "frozen/checkpoints/step-00000004", mean = folder / "mean";
  const Finished f = ckpt({"average", a, b, "--to", mean});
  ASSERT_EQ(f.code, 0) << f.err;
  {
    const io::WeightFiles before(a), after(mean);
    int num_in_blocks = 0;
    for (std::string_view name : before.names()) {
      EXPECT_EQ(after.block_format(name), before.block_format(name)) << name;
      if (!before.block_format(name)) continue;
      EXPECT_TRUE(std::ranges::equal(after.tensor(name).bytes, before.tensor(name).bytes)) << name;
      ++num_in_blocks;
    }
    EXPECT_EQ(num_in_blocks, 8);  // of two layers
  }
  const Finished text = lamina_program({"decode", "-m", mean, "--ids", "1,2", "-n", "2"});
  EXPECT_EQ(text.code, 0) << text.err;

  spoil_tensor(b, "layers.1.attention.wq.weight",
               [](std::span<std::byte> bytes) { bytes.back() ^= std::byte{1}; });
  expect_refused_average(folder, a, b, "'layers.1.attention.wq.weight' (INT8_32)");
}

}  // namespace
}  // namespace lamina::cli
