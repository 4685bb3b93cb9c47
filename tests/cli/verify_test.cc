// The text of `lamina verify`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "cli/trained_run.h"
#include "io/safetensors_writer.h"
#include "support/goldens.h"
#include "support/published_model.h"
#include "support/temp_dir.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::Finished;
using ::testing::HasSubstr;

// A case with the logits of one token, which are wrong, and `unknown` quantities of no model.
std::string odd_case(const lamina::testing::TempDir& folder, int unknown) {
  const fs::path from = lamina::testing::golden_dir() / "hf" / "llama3_gqa";
  const std::string path = lamina::testing::add_published_model(folder, from);
  fs::create_symlink(fs::absolute(from / "golden.json"), fs::path(path) / "golden.json");
  std::vector<io::TensorSpec> specs = {{"input_ids", DType::i32, {1, 1}},
                                       {"logits", DType::f32, {1, 1, 149}}};
  for (int i = 0; i < unknown; ++i) specs.push_back({"mood." + std::to_string(i), DType::f32, {1}});
  std::vector<std::byte> zeros(149 * sizeof(float));
  io::write_safetensors(path + "/golden.safetensors", specs, {}, [&](const io::TensorSpec& spec) {
    return std::span(zeros).first(static_cast<std::size_t>(spec.shape.num_elements()) *
                                  sizeof(float));
  });
  return path;
}

TEST(VerifyText, NamesAFewUnknownQuantitiesAndTheirNumber) {
  const lamina::testing::TempDir folder;
  const std::string path = odd_case(folder, 9);
  const Finished result = lamina_program({"verify", path});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, HasSubstr("  FAIL not computed: mood.0, mood.1, mood.2 and 6 more; the "
                                    "model has no quantity of that name (--all lists them)\n"));
  EXPECT_THAT(result.out, HasSubstr("  0 of 1 quantities agree, 9 are unknown\n"));
  EXPECT_THAT(lamina_program({"verify", path, "--all"}).out, HasSubstr("mood.7, mood.8; "));
}

}  // namespace
}  // namespace lamina::cli
