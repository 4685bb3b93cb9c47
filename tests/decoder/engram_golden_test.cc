// Engram's constants and hash equal MaxText's exactly: multipliers, table sizes, rows.
#include <gtest/gtest.h>

#include <cstring>

#include "core/json.h"
#include "decoder/engram/ngram_tables.h"
#include "io/safetensors.h"
#include "ops/op.h"
#include "support/goldens.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

template <typename T>
std::vector<T> values(const io::SafetensorsFile& file, const std::string& name) {
  auto bytes = file.tensor(name).bytes;
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<std::int64_t> integers(const JsonValue& list) {
  std::vector<std::int64_t> out;
  for (JsonValue element : list.elements()) out.push_back(element.as_int64());
  return out;
}

TEST(NgramTables, MultipliersAreNumPysDraws) {
  const auto folders = golden_folders("maxtext", "golden.safetensors", "engram_multipliers");
  if (folders.empty()) GTEST_SKIP() << "none in " << golden_dir();
  for (const fs::path& folder : folders) {
    io::SafetensorsFile file((folder / "golden.safetensors").string());
    auto settings = values<std::int64_t>(file, "settings");
    auto expected = values<std::int32_t>(file, "multipliers");
    ASSERT_GT(settings.size(), 0u);
    const std::size_t width = expected.size() / (settings.size() / 4);
    for (std::size_t row = 0; row * 4 < settings.size(); ++row) {
      const std::int64_t* s = &settings[row * 4];  // vocabulary, seed, count, layer
      auto got = decoder::ngram_multipliers(s[0], s[1], s[3], s[2]);
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i], expected[row * width + i]) << "vocabulary " << s[0] << ", layer " << s[3];
    }
  }
}

TEST(NgramTables, SizesArePrimesThatNoOtherHeadHas) {
  const auto folders = golden_folders("maxtext", "golden.json", "engram_primes");
  if (folders.empty()) GTEST_SKIP() << "none in " << golden_dir();
  for (const fs::path& folder : folders) {
    JsonDocument golden = JsonDocument::read((folder / "golden.json").string());
    for (JsonValue setting : golden.root().at("settings").elements()) {
      auto layers = integers(setting.at("engram_layers"));
      auto got =
          decoder::ngram_table_sizes(layers.size(), integers(setting.at("engram_vocab_bases")),
                                     setting.at("engram_num_heads").as_int64());
      for (std::size_t i = 0; i < layers.size(); ++i) {
        std::size_t order = 0;
        for (JsonValue sizes : setting.at("sizes").at(std::to_string(layers[i])).elements())
          EXPECT_EQ(got[i][order++], integers(sizes)) << "layer " << layers[i];
      }
    }
  }
}

class NgramHashGolden : public ::testing::TestWithParam<fs::path> {};

TEST_P(NgramHashGolden, RowsAreTheReferences) {
  io::SafetensorsFile file((GetParam() / "golden.safetensors").string());
  JsonDocument golden = JsonDocument::read((GetParam() / "golden.json").string());
  auto ids = values<std::int32_t>(file, "compressed_ids");
  Shape shape = file.tensor("compressed_ids").shape;
  std::int64_t pad = golden.root().at("compressed_pad_id").as_int64();
  std::int64_t count = golden.root().at("compressed_vocab").as_int64();
  for (std::int64_t layer : integers(golden.root().at("engram_layers"))) {
    std::string name = "layer" + std::to_string(layer);
    auto multipliers = values<std::int32_t>(file, name + ".multipliers");
    auto sizes = values<std::int32_t>(file, name + ".sizes");
    auto offsets = values<std::int32_t>(file, name + ".offsets");
    auto expected = values<std::int32_t>(file, name + ".hash_ids");
    Graph g;
    Tensor tokens = g.add_input("tokens", {DType::i32, shape, {}});
    Tensor table = g.add_input("table", {DType::i32, {count}, {}});
    std::vector<std::int64_t> wide_multipliers(multipliers.begin(), multipliers.end());
    std::vector<std::int64_t> wide_sizes(sizes.begin(), sizes.end());
    g.add_output(
        "rows",
        ops::call("ngram_hash", {tokens, table},
                  {{"multipliers", wide_multipliers}, {"sizes", wide_sizes}, {"pad", pad}}));
    // The golden's ids are compressed already.
    Doubles same(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < same.size(); ++i) same[i] = static_cast<double>(i);
    auto out = run(g, {array({DType::i32, shape, {}}, Doubles(ids.begin(), ids.end())),
                       array({DType::i32, {count}, {}}, same)});
    ASSERT_EQ(out[0].bytes.size(), expected.size() * sizeof(std::int32_t));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(get(out[0], static_cast<std::int64_t>(i)),
                expected[i] + offsets[i % offsets.size()]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, NgramHashGolden,
    ::testing::ValuesIn(golden_folders("maxtext", "golden.json", "engram_hash")),
    [](const auto& test) { return test_name(test.param.filename().string()); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NgramHashGolden);

}  // namespace
}  // namespace lamina::testing
