// Training of the indexer over compressed entries, compared with layers of transformers:
// tests/golden/indexer/README.md describes the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "backends/cpu/backend.h"
#include "io/safetensors.h"
#include "support/models.h"
#include "support/paths.h"

namespace lamina::testing {
namespace {

const std::filesystem::path kGoldens =
    std::filesystem::path(LAMINA_SOURCE_DIR) / "tests" / "golden";
const TestModel kFrom{"deepseek_v4", kGoldens / "hf" / "deepseek_v4"};

// Lamina's name in a layer, and the published name.
constexpr std::pair<const char*, const char*> kTensors[] = {
    {"wq_b.weight", "wq_b.weight"},
    {"weights_proj.weight", "weights_proj.weight"},
    {"compressor.wkv.weight", "compressor.wkv.weight"},
    {"compressor.wgate.weight", "compressor.wgate.weight"},
    {"compressor.position_bias", "compressor.ape"},
    {"compressor.norm.weight", "compressor.norm.weight"}};

template <typename Number>
std::vector<Number> numbers(const io::SafetensorsFile& file, const std::string& name) {
  const std::span<const std::byte> bytes = file.tensor(name).bytes;
  std::vector<Number> out(bytes.size() / sizeof(Number));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// `stage`: the prefix of the names in the golden.
void expect_agreement(const std::string& stage, std::vector<std::string> sets) {
  // The loss is the mean over layers, and two layers have an indexer; the golden has the sum.
  sets.emplace_back("model.indexer_loss_weight=2.0");
  const decoder::Model model =
      open_source(config::load_model(kFrom.path, {.sets = sets, .environment = {}}));
  const auto state = load_state(kFrom, model);
  const io::SafetensorsFile golden((kGoldens / "indexer" / "deepseek_v4.safetensors").string());
  const std::vector<std::int32_t> ids = numbers<std::int32_t>(golden, "input_ids");
  const Rows rows = program::rows_of(ids, ids, 2, static_cast<std::int64_t>(ids.size() / 2));
  train::TrainStep step(model, *state, {.shape = {rows.batch, rows.tokens}}, {},
                        cpu::cpu_backend());
  const std::vector<program::Microbatch> batches{rows.microbatch()};
  const train::StepResult result = step.gradients(batches, 0);
  EXPECT_NEAR(result.mean_of("aux_loss"), numbers<float>(golden, stage + ".loss")[0], 1e-5);
  const auto gradients = copy_of(model, state->gradients());
  for (int layer : {1, 3})
    for (const auto& [ours, published] : kTensors) {
      const std::string name = fmt::format("layers.{}.attention.indexer.{}", layer, ours);
      const std::vector<float> want = numbers<float>(
          golden, fmt::format("{}.grad.layers.{}.attn.indexer.{}", stage, layer, published));
      const int at = model.parameters().find(name);
      ASSERT_GE(at, 0) << name;
      EXPECT_LE(relative_difference(gradients.at(static_cast<std::size_t>(at)), want), 2e-4)
          << name;
    }
}

TEST(CompressedIndexer, LearnsAttentionOverTheChosenEntries) { expect_agreement("sparse", {}); }
TEST(CompressedIndexer, LearnsAttentionOverAllEntriesInTheWarmUp) {
  expect_agreement("dense", {"model.indexer_sparse_training=false"});
}

}  // namespace
}  // namespace lamina::testing
