// lamina ckpt diff and average: packed weights and blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "cli/trained_run.h"
#include "core/json.h"
#include "io/weight_files.h"
#include "support/packed_checkpoint.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using namespace lamina::testing;  // NOLINT(google-build-using-namespace): the layouts
using ::testing::HasSubstr;

using Tensors = std::vector<FileBytes>;

// Writes `folder`/`name`, a directory with these tensors.
std::string directory(const TempDir& folder, const std::string& name, const Tensors& tensors,
                      const std::string& quantization_config) {
  fs::create_directories(folder / name);
  write_checkpoint(folder / name, tensors, alone(quantization_config));
  return folder / name;
}

struct Layout {
  std::string type;  // of the matrix, in reports
  int bits;
  std::string config, scales, zero_points;
  std::function<Tensors(const IntegerWeight&)> tensors;
};

std::vector<Layout> layouts() {
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

IntegerWeight weight_of(const Layout& layout) {
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
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.type);
    const TempDir folder;
    const Tensors tensors = layout.tensors(weight_of(layout));
    const Finished f = ckpt({"diff", directory(folder, "a", tensors, layout.config),
                             directory(folder, "b", tensors, layout.config)});
    EXPECT_EQ(f.code, 0) << f.out << f.err;
    EXPECT_THAT(f.out, HasSubstr("model: 1 identical, 0 not\n"));
  }
}

TEST(CkptDiffPacked, OtherScalesAndZeroPointsAreOtherValues) {
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.type);
    const TempDir folder;
    const IntegerWeight w = weight_of(layout);
    const std::string a = directory(folder, "a", layout.tensors(w), layout.config);
    IntegerWeight doubled = w;
    for (float& scale : doubled.scales) scale *= 2;
    const std::vector<float> values = w.values();
    expect_changed(
        a, directory(folder, "doubled", layout.tensors(doubled), layout.config), layout.type,
        std::ranges::count_if(values, [](float value) { return value != 0; }), layout.scales);
    IntegerWeight shifted = w;
    shifted.zeros[0] ^= 1;
    expect_changed(a, directory(folder, "shifted", layout.tensors(shifted), layout.config),
                   layout.type, 32, layout.zero_points);
  }
}

TEST(CkptDiffPacked, AnotherGlobalScaleIsAnotherWeight) {
  const TempDir folder;
  const auto model = [&](const std::string& name, float global) {
    return directory(
        folder, name,
        {file_bytes("m.weight_packed", DType::u8, {16, 32}, std::vector<std::uint8_t>(512, 0x22)),
         file_bytes("m.weight_scale", DType::f8_e4m3, {16, 4}, std::vector<std::uint8_t>(64, 0x38)),
         file_bytes<float>("m.weight_global_scale", DType::f32, {1}, {global})},
        compressed_tensors_config("nvfp4-pack-quantized", 4, "tensor_group", 16, true, "",
                                  "float"));
  };
  EXPECT_EQ(ckpt({"diff", model("a", 2), model("b", 2)}).code, 0);
  expect_changed(folder / "a", model("c", 4), "packed fp4[16, 64]", 1024, "m.weight_global_scale");
}

// The numbers of both are i32[16, 8].
TEST(CkptDiffPacked, WeightsOfOtherShapesInEqualWordsDiffer) {
  const TempDir folder;
  const std::string a = directory(
      folder, "a", as_words("m", random_weight(16, 64, 4, 64, false, 3), DType::bf16, false),
      compressed_tensors_config("pack-quantized", 4, "channel", 0, true));
  const std::string b = directory(
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
  const std::string a = directory(folder, "a", tensors, config);
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
  const std::string b = directory(folder, "b", more, config);
  expect_parts(a, b, "m.input_scale only in B");
  expect_parts(b, a, "m.input_scale only in A");
  more.back() = file_bytes<float>("m.input_scale", DType::f32, {1}, {0.25f});
  expect_parts(b, directory(folder, "c", more, config), "m.input_scale");
  more.back() = file_bytes("m.weight_g_idx", DType::i32, {64}, w.group_of);
  const std::string indexed = directory(folder, "indexed", more, config);
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
  const std::string a = directory(folder, "a", tensors, config);
  tensors.push_back(file_bytes<float>("attention.k_scale", DType::f32, {1}, {0.5f}));
  const std::string b = directory(folder, "b", tensors, config);
  const Finished missing = ckpt({"diff", a, b});
  EXPECT_EQ(missing.code, 3) << missing.err;
  EXPECT_THAT(missing.out, HasSubstr("model: 1 identical, 1 not\n"));
  EXPECT_THAT(missing.out, HasSubstr("  only in B  attention.k_scale  f32[1]\n"));
  tensors.back() = file_bytes<float>("attention.k_scale", DType::f32, {1}, {1.f});
  const Finished changed = ckpt({"diff", b, directory(folder, "c", tensors, config)});
  EXPECT_EQ(changed.code, 3) << changed.err;
  EXPECT_THAT(changed.out, HasSubstr("  values     attention.k_scale  f32[1]  1 of 1 differ"));
}

TEST(CkptDiffPacked, SettingsMayChangeTheValues) {
  const TempDir folder;
  const Tensors tensors = as_gptq("m", random_weight(16, 64, 4, 64, true, 3), DType::f16, 1);
  const std::string a = directory(folder, "a", tensors, gptq_config(4, 64, false, 1));
  expect_changed(a, directory(folder, "b", tensors, gptq_config(4, 64, false, 2)),
                 "gptq int4[16, 64]", 1024, "quantization_config");
  // A group of a whole row.
  const Finished f =
      ckpt({"diff", a, directory(folder, "c", tensors, gptq_config(4, -1, false, 1))});
  EXPECT_EQ(f.code, 0) << f.out << f.err;
}

TEST(CkptDiffPacked, ComparesTheValuesWithPlainOnes) {
  const TempDir folder;
  const IntegerWeight w = random_weight(16, 64, 4, 32, false, 3);
  const std::string packed =
      directory(folder, "packed", as_words("m", w, DType::bf16, false),
                compressed_tensors_config("pack-quantized", 4, "group", 32, true));
  fs::create_directories(folder / "plain");
  write_checkpoint(folder / "plain", {float_bytes("m.weight", DType::f32, {16, 64}, w.values())},
                   "{}");
  const Finished f = ckpt({"diff", packed, folder / "plain"});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, HasSubstr("  type       m.weight  packed int4[16, 64] | f32[16, 64]  0 of "
                               "1024 differ"));
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

}  // namespace
}  // namespace lamina::cli
