// Models, compared with Hugging Face: every folder of hf with golden.safetensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>

#include "backends/cpu/backend.h"
#include "inspect/verify/verify.h"
#include "io/safetensors_writer.h"
#include "io/weight_files.h"
#include "support/agreement.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

inspect::VerifyReport verify(const fs::path& directory) {
  return inspect::verify_case(directory.string(), DType::f32, built_plugins(), cpu::cpu_backend());
}

// Cases that these tests change, or whose additional files are missing in the set of goldens.
const fs::path kOwnCases = fs::path(LAMINA_SOURCE_DIR) / "tests" / "golden" / "hf";

class HfGolden : public ::testing::TestWithParam<fs::path> {};

TEST_P(HfGolden, AgreesWithTheReference) {
  if (std::string reason = reason_to_skip(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  open_model(GetParam());  // names the family in the result
  expect_agreement(GetParam(), DType::f32, cpu::cpu_backend());
}

// The same configuration in the keys of transformers 5, with the same weights.
TEST_P(HfGolden, AgreesWithTheConfigOfTransformers5) {
  if (std::string reason = reason_to_skip(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  fs::path config = GetParam() / "config.v5.json";
  if (!fs::exists(config)) config = kOwnCases / GetParam().filename() / "config.v5.json";
  ASSERT_TRUE(fs::exists(config)) << "has no config.v5.json";
  TempDir folder;
  for (const fs::directory_entry& entry : fs::directory_iterator(GetParam()))
    if (entry.path().filename() != "config.json")
      fs::create_symlink(fs::absolute(entry.path()), folder / entry.path().filename().string());
  fs::create_symlink(fs::absolute(config), folder / "config.json");
  open_model(folder.path());
  expect_agreement(folder.path(), DType::f32, cpu::cpu_backend());
}

INSTANTIATE_TEST_SUITE_P(All, HfGolden,
                         ::testing::ValuesIn(golden_folders("hf", "golden.safetensors")),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HfGolden);

TEST(HfGoldens, SomeFamilyIsBuiltThatTheyAreAbout) {
  const std::vector<fs::path> folders = golden_folders("hf", "golden.safetensors");
  std::size_t computed = 0;
  for (const fs::path& directory : folders) computed += reason_to_skip(directory).empty();
  EXPECT_GE(computed, std::min<std::size_t>(folders.size(), 14));
}

std::vector<io::TensorSpec> specs_of(const io::WeightFiles& files) {
  std::vector<io::TensorSpec> specs;
  for (std::string_view name : files.names())
    specs.push_back({std::string(name), files.tensor(name).dtype, files.tensor(name).shape});
  return specs;
}

// Writes a case with these numbers to `folder`; files that it lacks are links to the case `name`.
void write_case(const TempDir& folder, const std::string& name,
                const std::vector<io::TensorSpec>& specs,
                const std::function<std::span<const std::byte>(const io::TensorSpec&)>& bytes_of) {
  io::write_safetensors(folder / "golden.safetensors", specs, {}, bytes_of);
  for (const fs::directory_entry& entry : fs::directory_iterator(kOwnCases / name))
    if (const std::string file = folder / entry.path().filename().string(); !fs::exists(file))
      fs::create_symlink(fs::absolute(entry.path()), file);
}

// Copies the case `name` to `folder` with other numbers: `change` gets a copy of each tensor's
// bytes. `more`, if given, is an additional tensor of one number.
void change_case(const TempDir& folder, const std::string& name, const std::string& more,
                 const std::function<void(std::string_view, std::vector<std::byte>&)>& change) {
  const io::WeightFiles golden((kOwnCases / name / "golden.safetensors").string());
  std::vector<io::TensorSpec> specs = specs_of(golden);
  if (!more.empty()) specs.push_back({more, DType::f32, {1}});
  std::vector<std::byte> bytes;
  write_case(folder, name, specs, [&](const io::TensorSpec& spec) {
    bytes.assign(sizeof(float), std::byte{0});
    if (spec.name != more) {
      std::span<const std::byte> stored = golden.tensor(spec.name).bytes;
      bytes.assign(stored.begin(), stored.end());
      change(spec.name, bytes);
    }
    return std::span<const std::byte>(bytes);
  });
}

TEST(Verify, FailsWhereNothingOfOursHasTheName) {
  TempDir folder;
  change_case(folder, "llama3_gqa", "mixer.0.mood", [](auto, auto&) {});
  inspect::VerifyReport report = verify(folder.path());
  EXPECT_TRUE(std::ranges::all_of(report.rows, &inspect::VerifyRow::passed));
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].quantity, "mixer.0.mood");
  EXPECT_FALSE(report.passed());
}

TEST(Verify, CountsTokensWithAnotherChoiceOfExperts) {
  TempDir folder;
  change_case(folder, "qwen3_moe_norm", "", [](std::string_view name, auto& bytes) {
    const std::int32_t other = 99;
    if (name != "router.1.experts") return;
    for (std::size_t token : {0, 5})
      std::memcpy(bytes.data() + token * 3 * sizeof other, &other, sizeof other);
  });
  int found = 0;
  for (const inspect::VerifyRow& row : verify(folder.path()).rows) {
    if (row.quantity != "router.1.experts") continue;
    ++found;
    EXPECT_EQ(row.error, 2);
    EXPECT_EQ(row.note, "tokens with another choice");
  }
  EXPECT_EQ(found, 1);
}

TEST(Verify, GreedyLogitsAreThoseAfterThePrompt) {
  const auto verify_rows = [](std::int64_t rows) {
    TempDir folder;
    folder.write("golden.json", R"({"prompt_length": 7})");
    const std::vector<std::byte> zeros(sizeof(float) * 149 * 12);
    write_case(folder, "llama3_gqa",
               {{"greedy_ids", DType::i32, {1, 12}}, {"greedy_logits", DType::f32, {rows, 149}}},
               [&](const io::TensorSpec& spec) {
                 return std::span(zeros).first(static_cast<std::size_t>(io::num_bytes(spec)));
               });
    return verify(folder.path());
  };
  for (const std::int64_t rows : {1, 12})
    EXPECT_ERROR_SAYS(
        verify_rows(rows), ExitCode::checkpoint,
        "tensor 'greedy_logits' is [" + std::to_string(rows) + ", 149]; expected [5, 149]");
  EXPECT_EQ(verify_rows(5).rows.at(0).quantity, "greedy_logits");
}

TEST(Verify, ParametersOfAnotherSizeFail) {
  const std::string cut = "final.model.embed_tokens.weight";
  const io::WeightFiles golden((kOwnCases / "train_llama3" / "golden.safetensors").string());
  std::vector<io::TensorSpec> specs = specs_of(golden);
  std::ranges::find(specs, cut, &io::TensorSpec::name)->shape = {1};
  TempDir folder;
  write_case(folder, "train_llama3", specs, [&](const io::TensorSpec& spec) {
    return golden.tensor(spec.name).bytes.first(static_cast<std::size_t>(io::num_bytes(spec)));
  });
  int found = 0;
  for (const inspect::VerifyRow& row : verify(folder.path()).rows) {
    if (row.quantity != cut && row.quantity != cut + " (rms)") continue;
    ++found;
    EXPECT_EQ(row.error, std::numeric_limits<double>::infinity()) << row.quantity;
  }
  EXPECT_EQ(found, 2);
}

TEST(Verify, AQuantityWithoutALayerIsUnknown) {
  // 2^64 has 0 as its lower 64 bits.
  for (const std::string name : {"attn.18446744073709551616", "attn.-0", "attn."}) {
    TempDir folder;
    change_case(folder, "llama3_gqa", name, [](auto, auto&) {});
    const inspect::VerifyReport report = verify(folder.path());
    ASSERT_EQ(report.skipped.size(), 1u);
    EXPECT_EQ(report.skipped[0].quantity, name);
    EXPECT_TRUE(report.skipped[0].tags.empty()) << name;
  }
}

// A copy of llama3_gqa in which all bytes of a weight have one value.
void change_weight(const fs::path& folder, std::string_view weight, std::byte value) {
  fs::path from = kOwnCases / "llama3_gqa";
  for (const char* name : {"config.json", "golden.json", "golden.safetensors"})
    fs::create_symlink(fs::absolute(from / name), folder / name);
  io::WeightFiles files(from.string());
  std::vector<std::byte> changed;
  io::write_weight_files(folder.string(), specs_of(files), [&](const io::TensorSpec& spec) {
    std::span<const std::byte> bytes = files.tensor(spec.name).bytes;
    if (spec.name != weight) return bytes;
    changed.assign(bytes.size(), value);
    return std::span<const std::byte>(changed);
  });
}

TEST(Verify, NamesTheFirstLayerThatDeparts) {
  // The second layer's norm weights are zero: layer 0 agrees, layer 1 does not.
  TempDir folder;
  change_weight(folder.path(), "model.layers.1.input_layernorm.weight", std::byte{0});
  inspect::VerifyReport report = verify(folder.path());
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.first_departure, "layer 1");
}

TEST(Verify, FailsTheRowsThatAreNotFiniteAndNamesTheirOrigin) {
  TempDir folder;
  change_weight(folder.path(), "model.layers.1.input_layernorm.weight", std::byte{0xff});  // NaN
  const inspect::VerifyReport report = verify(folder.path());
  EXPECT_EQ(report.first_departure, "layer 1");
  std::map<std::string, inspect::VerifyRow> rows;
  for (const inspect::VerifyRow& row : report.rows) rows.emplace(row.quantity, row);
  EXPECT_TRUE(rows.at("hidden.0").passed());
  EXPECT_FALSE(rows.at("logits").passed());
  EXPECT_FALSE(rows.at("loss").passed());
  EXPECT_THAT(rows.at("loss").note,
              ::testing::StartsWith("the first value that is not finite comes from "));
  EXPECT_FALSE(rows.at("grad_sample.model.layers.0.mlp.down_proj.weight").passed());
}

}  // namespace
}  // namespace lamina::testing
