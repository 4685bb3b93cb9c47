// The text of `lamina verify`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "cli/trained_run.h"
#include "core/float16.h"
#include "io/safetensors_writer.h"
#include "io/weight_files.h"
#include "support/goldens.h"
#include "support/published_model.h"
#include "support/temp_dir.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::Finished;
using ::testing::HasSubstr;

const fs::path kCase = lamina::testing::golden_dir() / "hf" / "llama3_gqa";

// A directory with the model of kCase and its golden.json.
std::string case_without_numbers(const lamina::testing::TempDir& folder) {
  std::string path = lamina::testing::add_published_model(folder, kCase);
  fs::create_symlink(fs::absolute(kCase / "golden.json"), fs::path(path) / "golden.json");
  return path;
}

// A case with the logits of one token, which are wrong, and further quantities.
std::string odd_case(const lamina::testing::TempDir& folder,
                     const std::vector<std::string>& further) {
  std::string path = case_without_numbers(folder);
  std::vector<io::TensorSpec> specs = {{"input_ids", DType::i32, {1, 1}},
                                       {"logits", DType::f32, {1, 1, 149}}};
  for (const std::string& name : further) specs.push_back({name, DType::f32, {1}});
  const std::vector<std::int32_t> ids = {0};
  const std::vector<float> tenths(149, 0.1f);
  io::write_safetensors(path + "/golden.safetensors", specs, {}, [&](const io::TensorSpec& spec) {
    if (spec.dtype == DType::i32) return std::as_bytes(std::span(ids));
    return std::as_bytes(
        std::span(tenths).first(static_cast<std::size_t>(spec.shape.num_elements())));
  });
  return path;
}

// The ids, logits and greedy tokens of kCase, as a reference that computes in bfloat16 has them.
std::string bfloat16_case(const lamina::testing::TempDir& folder, float wrong_by) {
  std::string path = case_without_numbers(folder);
  const io::WeightFiles golden((kCase / "golden.safetensors").string());
  std::vector<io::TensorSpec> specs;
  for (const char* name : {"input_ids", "logits", "prompt_ids", "greedy_ids"})
    specs.push_back({name, golden.tensor(name).dtype, golden.tensor(name).shape});
  std::vector<std::byte> bytes;
  io::write_safetensors(path + "/golden.safetensors", specs, {}, [&](const io::TensorSpec& spec) {
    const std::span<const std::byte> from = golden.tensor(spec.name).bytes;
    bytes.assign(from.begin(), from.end());
    if (spec.name == "logits")
      for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
        float v;
        std::memcpy(&v, &bytes[at], sizeof v);
        v = to_float(to_bfloat16(v + wrong_by));
        std::memcpy(&bytes[at], &v, sizeof v);
      }
    return std::span<const std::byte>(bytes);
  });
  return path;
}

TEST(VerifyText, NamesAFewUnknownQuantitiesAndTheirNumber) {
  const lamina::testing::TempDir folder;
  std::vector<std::string> moods;
  for (int i = 0; i < 9; ++i) moods.push_back("mood." + std::to_string(i));
  const std::string path = odd_case(folder, moods);
  const Finished result = lamina_program({"verify", path});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, HasSubstr("  FAIL not computed: mood.0, mood.1, mood.2 and 6 more; the "
                                    "model has no quantity of that name (--all lists them)\n"));
  EXPECT_THAT(result.out, HasSubstr("  0 of 1 quantities agree, 9 are unknown\n"));
  EXPECT_THAT(lamina_program({"verify", path, "--all"}).out, HasSubstr("mood.7, mood.8; "));
}

TEST(VerifyText, NamesTheTagThatLayersLack) {
  const lamina::testing::TempDir folder;
  const std::string path =
      odd_case(folder, {"router.0.logits", "router.1.logits", "router_logits", "mood"});
  const Finished result = lamina_program({"verify", path});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, HasSubstr("  FAIL not computed: router.0.logits, router.1.logits, "
                                    "router_logits; no value of the layer has the tag "
                                    "'router_logits'; a block sets it with tag()\n"));
  EXPECT_THAT(result.out, HasSubstr("  FAIL not computed: mood; the model has no quantity of that "
                                    "name\n"));
  EXPECT_THAT(lamina_program({"verify", path, "--json"}).out,
              HasSubstr("has the tag 'router_logits'"));
}

TEST(VerifyText, AllowsTheRoundingOfAReferenceInBfloat16) {
  const lamina::testing::TempDir folder, wrong;
  const Finished close = lamina_program({"verify", bfloat16_case(folder, 0), "--all"});
  EXPECT_EQ(close.code, 0) << close.out;
  EXPECT_THAT(close.out, HasSubstr("  1 of 1 quantities agree\n"));  // greedy tokens may differ
  const Finished far = lamina_program({"verify", bfloat16_case(wrong, 1)});
  EXPECT_EQ(far.code, 3);
  EXPECT_THAT(far.out, HasSubstr("  FAIL logits "));
}

}  // namespace
}  // namespace lamina::cli
