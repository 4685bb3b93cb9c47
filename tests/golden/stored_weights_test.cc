// Models whose weights stay in blocks: the bits of weights that were widened when they were loaded.
#include <gtest/gtest.h>

#include <filesystem>

#include "decode/session.h"
#include "inspect/plan/model_plan.h"
#include "model/load.h"
#include "support/gguf_golden.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// The model of a golden case.
std::string model_in(const fs::path& folder) {
  const fs::path gguf = folder / "model.gguf";
  return (fs::exists(gguf) ? gguf : folder).string();
}

model::Loaded loaded(const fs::path& folder, DType dtype, bool packed) {
  return model::load(model_in(folder), built_plugins(), dtype, cpu::cpu_backend(),
                     {.packed = packed});
}

int num_stored(const model::Loaded& m) {
  return static_cast<int>(std::ranges::count_if(
      m.model().parameters().all(), [](const auto& p) { return p.storage != nullptr; }));
}

// Logits of a prompt of 70 tokens, which tiles multiply, and of single tokens after it.
Floats decoded(const model::Loaded& m, DType dtype) {
  decode::Session session(m.model(), m.weights.pointers(),
                          {.capacity = 80, .call_tokens = 70, .dtype = dtype}, cpu::cpu_backend());
  std::vector<std::int32_t> ids(74);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7 % 61);
  Floats out;
  std::span<const std::int32_t> rest = ids;
  for (const std::size_t count : {70, 1, 2, 1}) {
    const auto logits = session.append(rest.first(count));
    out.insert(out.end(), logits.begin(), logits.end());
    rest = rest.subspan(count);
  }
  return out;
}

std::vector<fs::path> packed_cases() {
  std::vector<fs::path> out = gguf_cases();
  for (const fs::path& folder : golden_folders("quantised", "model.safetensors"))
    out.push_back(folder);
  for (const char* name : {"gpt_oss_mxfp4", "deepseek_v3_fp8"}) out.push_back(kOwnCases / name);
  return out;
}

class StoredWeights : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoredWeights);

TEST_P(StoredWeights, HaveTheBitsOfWidenedOnes) {
  if (GetParam().parent_path() == kOwnCases) {
    SKIP_WITHOUT(GetParam());
  }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const model::Loaded stored = loaded(GetParam(), dtype, true),
                        widened = loaded(GetParam(), dtype, false);
    EXPECT_EQ(num_stored(widened), 0);
    EXPECT_TRUE(same_bits(decoded(stored, dtype), decoded(widened, dtype)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, StoredWeights, ::testing::ValuesIn(packed_cases()),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });

TEST(StoredGguf, BlocksStayInTheFile) {
  const fs::path from = golden_dir() / "gguf" / "qwen3_q4_k";
  if (!fs::exists(from)) GTEST_SKIP() << from << " is not there";
  const model::Loaded m = loaded(from, DType::bf16, true);
  EXPECT_EQ(num_stored(m), 8);  // the token table, four matrices of attention, three after it
  for (std::size_t i = 0; i < m.model().parameters().all().size(); ++i) {
    const decoder::Parameter& p = m.model().parameters().all()[i];
    if (!p.storage) continue;
    EXPECT_TRUE(m.weights.is_mapped(static_cast<int>(i))) << p.name;
    EXPECT_EQ(m.weights.pointers()[i].type(), p.used_type(DType::bf16)) << p.name;
  }
}

TEST(StoredMxfp4, ExpertsAreCopiedInBlocks) {
  const fs::path from = kOwnCases / "gpt_oss_mxfp4";
  SKIP_WITHOUT(from);
  const model::Loaded m = loaded(from, DType::bf16, true);
  EXPECT_GT(num_stored(m), 0);
  for (const decoder::Parameter& p : m.model().parameters().all())
    EXPECT_EQ(p.storage == &formats::mxfp4_format(),
              p.name.find(".experts.w") != p.name.npos && p.desc.shape.ndim() == 3)
        << p.name;
}

TEST(StoredGguf, ThePlanCountsTheBytesOfBlocks) {
  const fs::path from = golden_dir() / "gguf" / "qwen3_q8_0";
  if (!fs::exists(from)) GTEST_SKIP() << from << " is not there";
  model::OpenedModel opened = model::open(model_in(from), built_plugins());
  model::keep_blocks(opened, DType::bf16);
  const inspect::ModelPlan plan =
      inspect::plan_model(*opened.model, {.tokens = 16}, cpu::cpu_backend());
  std::int64_t q8_0 = 0, plain = 0;
  for (const decoder::Parameter& p : opened.model->parameters().all())
    (p.desc.shape.ndim() == 2 ? q8_0 : plain) +=
        p.desc.shape.ndim() == 2 ? p.num_elements() / 32 * 34 : 4 * p.num_elements();
  const std::vector<std::pair<std::string, std::int64_t>> want = {{"Q8_0", q8_0}, {"plain", plain}};
  EXPECT_EQ(plan.stored_bytes, want);
}

}  // namespace
}  // namespace lamina::testing
