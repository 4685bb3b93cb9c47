// A checkpoint in DeepSeek's published V4 format: experts as pairs of FP4 values with a power of
// two per 32, products in FP8 with a power of two per block, other tensors uncompressed. The values
// that are read equal the definition of these formats.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "io/stored_weight.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "weights/publish/published.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kBlock = 32;

struct Stored {
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};
using Checkpoint = std::map<std::string, Stored>;

// Defined by sign, exponent and mantissa; exponent 0 has no leading 1.
double e2m1(int code) {
  const int exponent = code >> 1 & 3, mantissa = code & 1;
  const double size = exponent == 0 ? mantissa * 0.5 : (1 + mantissa * 0.5) * (1 << (exponent - 1));
  return code & 8 ? -size : size;
}
double e4m3(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 7 - 3);
  return code & 128 ? -size : size;
}

int nearest(double value, int codes, double (*decode)(int)) {
  int best = 0;
  for (int code = 1; code < codes; ++code) {
    if (codes == 256 && (code & 127) == 127) continue;  // no number
    if (std::abs(decode(code) - value) < std::abs(decode(best) - value)) best = code;
  }
  return best;
}

// The smallest power of two that brings `max` to `largest` or below.
int exponent_for(double max, double largest) {
  return max == 0 ? 0 : static_cast<int>(std::ceil(std::log2(max / largest)));
}

std::vector<float> floats(const Stored& weight) {
  std::vector<float> out(static_cast<std::size_t>(weight.shape.num_elements()));
  std::memcpy(out.data(), weight.bytes.data(), weight.bytes.size());
  return out;
}

Stored plain(const Shape& shape, const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {DType::f32, shape, {bytes.begin(), bytes.end()}};
}

// One scale for `rows` x `columns` values, the stored values and the decoded values.
template <class Store>
std::vector<std::byte> scaled(const Shape& shape, std::vector<float>& values, std::int64_t rows,
                              std::int64_t columns, double largest, Store store) {
  std::vector<std::byte> scales;
  for (std::int64_t r = 0; r < shape[0]; r += rows)
    for (std::int64_t c = 0; c < shape[1]; c += columns) {
      double max = 0;
      auto each = [&](auto visit) {
        for (std::int64_t i = r; i < std::min(r + rows, shape[0]); ++i)
          for (std::int64_t j = c; j < std::min(c + columns, shape[1]); ++j)
            visit(i * shape[1] + j, values[static_cast<std::size_t>(i * shape[1] + j)]);
      };
      each([&](std::int64_t, float& v) { max = std::max(max, std::abs(double{v})); });
      const int exponent = exponent_for(max, largest);
      scales.push_back(static_cast<std::byte>(exponent + 127));
      each([&](std::int64_t at, float& v) {
        v = static_cast<float>(std::ldexp(store(at, std::ldexp(v, -exponent)), exponent));
      });
    }
  return scales;
}

// Adds the tensor `name` to `compressed`, and its decoded values to `values`.
void compress_fp4(const std::string& name, Checkpoint& compressed, Checkpoint& values) {
  const Shape shape = values.at(name).shape;
  std::vector<float> v = floats(values.at(name));
  std::vector<std::byte> pairs(v.size() / 2);
  auto scales = scaled(shape, v, 1, kBlock, 6, [&](std::int64_t at, double x) {
    const int code = nearest(x, 16, e2m1);
    pairs[static_cast<std::size_t>(at / 2)] |= static_cast<std::byte>(code << (at % 2 * 4));
    return e2m1(code);
  });
  compressed[name] = {DType::i8, {shape[0], shape[1] / 2}, pairs};
  compressed[name.substr(0, name.size() - 6) + "scale"] = {
      DType::f8_e8m0, {shape[0], (shape[1] + kBlock - 1) / kBlock}, scales};
  values[name] = plain(shape, v);
}

void compress_fp8(const std::string& name, Checkpoint& compressed, Checkpoint& values) {
  const Shape shape = values.at(name).shape;
  std::vector<float> v = floats(values.at(name));
  std::vector<std::byte> bytes(v.size());
  auto scales = scaled(shape, v, 16, 16, 448, [&](std::int64_t at, double x) {
    const int code = nearest(x, 256, e4m3);
    bytes[static_cast<std::size_t>(at)] = static_cast<std::byte>(code);
    return e4m3(code);
  });
  compressed[name] = {DType::f8_e4m3, shape, bytes};
  compressed[name.substr(0, name.size() - 6) + "scale"] = {
      DType::f8_e8m0, {(shape[0] + 15) / 16, (shape[1] + 15) / 16}, scales};
  values[name] = plain(shape, v);
}

void write(const TempDir& to, const std::string& config, const Checkpoint& checkpoint) {
  to.write("config.json", config);
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, stored] : checkpoint) specs.push_back({name, stored.dtype, stored.shape});
  io::write_weight_files(to.path(), specs, [&](const io::TensorSpec& spec) {
    return std::span<const std::byte>(checkpoint.at(spec.name).bytes);
  });
}

std::vector<std::vector<float>> read(const decoder::Model& model, const std::string& path) {
  const io::WeightFiles files(path);
  const weights::TensorMap map = weights::match_weights(model, files);
  std::vector<std::vector<float>> out;
  for (const decoder::Parameter& p : model.parameters().all()) {
    out.emplace_back(static_cast<std::size_t>(p.num_elements()));
    weights::read_parameter(map, files, static_cast<int>(out.size()) - 1, 0, out.back());
  }
  return out;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, text.npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(Fp4Experts, HaveTheValuesThatTheirFormDefines) {
  const std::filesystem::path golden = golden_dir() / "hf" / "deepseek_v4";
  const io::WeightFiles files(golden.string());
  Checkpoint compressed, values;
  for (std::string_view name : files.names()) {
    const io::StoredWeight weight(files, name);
    const io::TensorView& data = weight.data();
    if (data.dtype == DType::i64) {
      values[std::string(name)] = {data.dtype, data.shape, {data.bytes.begin(), data.bytes.end()}};
    } else {
      std::vector<float> v(static_cast<std::size_t>(data.shape.num_elements()));
      weight.decode(0, 1, v);
      values[std::string(name)] = plain(data.shape, v);
    }
    compressed[std::string(name)] = values[std::string(name)];
  }
  int in_fp4 = 0, in_fp8 = 0;
  for (std::string_view name : files.names()) {
    const std::string n(name);
    if (n.find(".experts.") != n.npos) ++in_fp4, compress_fp4(n, compressed, values);
    for (const char* product : {"attn.wq_a.", "attn.wq_b.", "attn.wkv.", "attn.wo_a.", "attn.wo_b.",
                                "indexer.wq_b.", "shared_experts."})
      if (n.find(product) != n.npos) ++in_fp8, compress_fp8(n, compressed, values);
  }
  EXPECT_EQ(in_fp4, 5 * 7 * 3);
  EXPECT_EQ(in_fp8, 5 * 5 + 2 + 5 * 3);

  std::ifstream in(golden / "config.json");
  const std::string config{std::istreambuf_iterator<char>(in), {}};
  TempDir as_published, as_values;
  // The files have one ratio more than layers, for the layer that predicts further tokens.
  write(as_published,
        replaced(replaced(config, "\"hidden_act\"",
                          R"("expert_dtype": "fp4",
  "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                          "scale_fmt": "ue8m0", "weight_block_size": [16, 16]},
  "hidden_act")"),
                 "\"compress_ratios\": [",
                 "\"compress_ratios\": [0, 4, 128, 4, 128, 0],\n  \"was\": ["),
        compressed);
  write(as_values, config, values);
  const decoder::Model model = open_model(as_published.path());
  const auto got = read(model, as_published.path());
  const auto expected = read(open_model(as_values.path()), as_values.path());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(same_bits(got[i], expected[i])) << model.parameters().all()[i].name;
}

// The published names as transformers 5 renames them when it saves such a model.
TEST(SavedByTransformers, OtherNamesHaveTheSameValues) {
  const std::filesystem::path golden = golden_dir() / "hf" / "deepseek_v4";
  const io::WeightFiles files(golden.string());
  Checkpoint renamed;
  for (std::string_view name : files.names()) {
    std::string to = "model." + std::string(name);
    if (name == "head.weight") to = name;
    if (name == "embed.weight") to = "model.embed_tokens.weight";
    if (name.starts_with("hc_head_")) to = "model.hc_head.hc_" + std::string(name.substr(8));
    if (name.ends_with("attn.kv_norm.weight")) to = replaced(to, "kv_norm", "norm");
    const io::TensorView view = files.tensor(name);
    renamed[to] = {view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}};
  }
  std::ifstream in(golden / "config.v5.json");
  TempDir saved;
  write(saved, {std::istreambuf_iterator<char>(in), {}}, renamed);
  const auto got = read(open_model(saved.path()), saved.path());
  const auto expected = read(open_model(golden), golden.string());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], expected[i])) << i;
}

}  // namespace
}  // namespace lamina::testing
