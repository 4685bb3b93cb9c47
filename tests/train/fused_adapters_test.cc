// Adapters of matrices that are rows of one published module: against PEFT, and for every way in
// which a family's map chooses rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inspect/verify/case.h"
#include "lamina/sdk.h"
#include "model/adapter.h"
#include "support/expect_error.h"
#include "train/lora_run.h"
#include "weights/match/tensor_map.h"

namespace lamina::testing {
namespace {

namespace sdk = lamina::sdk;

// The adapters of golden/adapters name their models by paths.
TEST(FusedAdapters, OfPeftGiveItsLogitsBesideAndInTheModel) {
  if (!has_golden_model("phi3_partial")) GTEST_SKIP() << "phi3_partial is not in tests/golden";
  for (const auto& directory : golden_folders("adapters", "golden.safetensors")) {
    SCOPED_TRACE(directory);
    const inspect::GoldenCase golden(directory.string());
    const std::vector<std::int32_t> ids = golden.ints("input_ids");
    const Shape shape = golden.shape("input_ids");
    const Rows rows =
        program::rows_of(ids, std::vector<std::int32_t>(ids.size(), -100), shape[0], shape[1]);
    const std::vector<float> want = golden.floats("logits");
    const auto logits = [&](const model::Loaded& m) {
      return forward(m.model(), m.weights.pointers(), rows);
    };
    EXPECT_LT(difference(logits(load_f32(directory.string())), want), 1e-4);
    const TempDir folder;
    const model::Loaded merged = merged_into(folder / "merged", directory.string());
    EXPECT_FALSE(merged.model().adapter());
    EXPECT_LT(difference(logits(merged), want), 1e-4);
  }
}

struct PartsConfig {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
};
constexpr std::int64_t kPartsFeed = 3, kPartsWidth = 4, kAdapterRank = 2;

std::vector<sdk::Weight> rows_of_parts;  // of the next family
bool reads_up = false;                   // another op reads the matrix of `up`

sdk::Tensor block_of_parts(sdk::Scope s, const PartsConfig&, sdk::Tensor x, const sdk::Step&) {
  sdk::Tensor gate = sdk::linear(s / "gate", x, kPartsFeed);
  sdk::Tensor w = (s / "up").param("weight", {kPartsFeed, kPartsWidth},
                                   {.axes = {sdk::axis::mlp, sdk::axis::embed}});
  sdk::Tensor up = sdk::linear(x, reads_up ? w * w : w);
  return sdk::linear(s / "down", gate * up, kPartsWidth);
}

constexpr sdk::Model<PartsConfig> kPartsFamily = {
    .family = {.name = "parts", .hf_prefixes = {"model."}},
    .keys =
        [](sdk::Schema<PartsConfig>& key) {
          key("vocab_size", &PartsConfig::vocab_size, {.fallback = 5, .doc = "A number."});
          key("hidden_size", &PartsConfig::hidden_size,
              {.fallback = kPartsWidth, .doc = "A number."});
          key("num_hidden_layers", &PartsConfig::num_hidden_layers,
              {.fallback = 1, .doc = "A number."});
        },
    .blocks =
        [] {
          return std::vector<sdk::Block<PartsConfig>>{{1, "parts", block_of_parts}};
        },
    .plan =
        [](const PartsConfig& c) { return sdk::prefix("a", sdk::unit(1), c.num_hidden_layers); },
    .head = [](const PartsConfig&) { return sdk::Head{.tied = true}; },
    .weights = [] { return rows_of_parts; },
};

using Transforms = std::vector<sdk::Transform>;

// A model whose `gate` and `up` are parts of one published tensor.
class Fused {
 public:
  Fused(const Transforms& gate, const Transforms& up)
      : tables_((rows_of_parts = {{0, LAMINA_NAME_EMBED, "model.embed.weight"},
                                  {1, "gate.weight", kFusedName, gate},
                                  {1, "up.weight", kFusedName, up},
                                  {1, "down.weight", "model.layers.{L}.down.weight"}},
                 kPartsFamily)),
        family_(std::make_shared<registry::Family>(tables_.family(),
                                                   std::make_shared<registry::PluginIdentity>())) {}

  decoder::Model model(const decoder::ModelOptions& options = {}) const {
    return decoder::Model(family_, family_->configure({}, "test"), options);
  }
  decoder::Adapter adapter(const std::string& target) const {
    return model::adapter_of(
        model(), {.rank = kAdapterRank, .alpha = 1, .target_modules = {target}}, "test");
  }
  std::vector<std::string> adapted(const std::string& target) const {
    std::vector<std::string> out;
    const decoder::Model made = model({.adapter = adapter(target)});
    for (const decoder::Parameter& p : made.parameters().all())
      if (decoder::is_adapter(p.name)) out.push_back(p.desc.name);
    return out;
  }

 private:
  static constexpr std::string_view kFusedName = "model.layers.{L}.mlp.gate_up.weight";
  sdk::FamilyTables<PartsConfig> tables_;
  std::shared_ptr<const registry::Family> family_;
};

// The first row of b of `gate` and of `up`, and the distance between the rows of each.
struct RowPlaces {
  const char* what;
  Transforms gate, up;
  std::int64_t gate_first, up_first, distance;
};
const RowPlaces kRowPlaces[] = {
    {"after each other", {sdk::part(0, 0)}, {sdk::part(1, 0)}, 0, kPartsFeed, 1},
    {"in the other order", {sdk::part(1, -2)}, {sdk::part(0, -2)}, kPartsFeed, 0, 1},
    {"interleaved", {sdk::strided(0, 2, 0)}, {sdk::strided(1, 2, 0)}, 0, 1, 2},
    {"transposed first",
     {sdk::kTranspose, sdk::part(0, 0)},
     {sdk::kTranspose, sdk::part(1, 0)},
     0,
     kPartsFeed,
     1},
    {"transposed last",
     {sdk::strided(0, 2, -1), sdk::kTranspose},
     {sdk::strided(1, 2, 1), sdk::kTranspose},
     0,
     1,
     2},
};

TEST(FusedAdapters, HaveRowsOfUpWhereTheMatrixHasThem) {
  for (const RowPlaces& c : kRowPlaces) {
    SCOPED_TRACE(c.what);
    const Fused fused(c.gate, c.up);
    const decoder::Model model = fused.model({.adapter = fused.adapter("gate_up")});
    const weights::TensorMap map = weights::published_tensors(model);
    std::map<std::string, std::vector<std::int64_t>> first;  // by parameter: offset, distance
    for (const weights::PublishedTensor& tensor : map.tensors()) {
      const std::string module = "base_model.model.model.layers.0.mlp.gate_up.";
      if (tensor.name == module + "lora_A.weight") {
        EXPECT_EQ(tensor.shape, (Shape{kAdapterRank, kPartsWidth}));
      }
      if (tensor.name != module + "lora_B.weight") continue;
      EXPECT_EQ(tensor.shape, (Shape{2 * kPartsFeed, kAdapterRank}));
      for (const int index : tensor.pieces) {
        const weights::Piece& piece = map.pieces()[static_cast<std::size_t>(index)];
        EXPECT_EQ(piece.view.strides[1], 1);
        first[model.parameters()[piece.parameter].desc.name] = {
            piece.view.offset / kAdapterRank, piece.view.strides[0] / kAdapterRank};
      }
    }
    EXPECT_EQ(first["gate.lora_b"], (std::vector{c.gate_first, c.distance}));
    EXPECT_EQ(first["up.lora_b"], (std::vector{c.up_first, c.distance}));
  }
}

TEST(FusedAdapters, HaveOneDownNamedAfterTheFirstPart) {
  EXPECT_THAT(Fused({sdk::part(1, 0)}, {sdk::part(0, 0)}).adapted("gate_up"),
              ::testing::UnorderedElementsAre("up.lora_a", "up.lora_b", "gate.lora_b"));
}

TEST(FusedAdapters, ThatDivideTheInputsAreRefused) {
  const Fused fused({sdk::kTranspose, sdk::part(0, 1)}, {sdk::kTranspose, sdk::part(1, 1)});
  EXPECT_ERROR_SAYS(fused.adapter("gate_up"), ExitCode::usage,
                    "test: 'gate_up' is 'gate.weight', a part of "
                    "'model.layers.{L}.mlp.gate_up.weight'\n  adapters are supported for modules "
                    "of linear layers, for all outputs of a module");
  EXPECT_THAT(fused.adapted("all-linear"),
              ::testing::UnorderedElementsAre("down.lora_a", "down.lora_b"));
}

TEST(FusedAdapters, CoverAllRowsOrNone) {
  EXPECT_THAT(Fused({sdk::part(0, 0)}, {sdk::part(1, 0), sdk::multiplied(2)}).adapted("all-linear"),
              ::testing::UnorderedElementsAre("down.lora_a", "down.lora_b"));
  reads_up = true;
  EXPECT_THAT(Fused({sdk::part(0, 0)}, {sdk::part(1, 0)}).adapted("all-linear"),
              ::testing::UnorderedElementsAre("down.lora_a", "down.lora_b"));
  reads_up = false;
}

TEST(FusedAdapters, AreNotOfOnePart) {
  EXPECT_ERROR_SAYS(Fused({sdk::part(0, 0)}, {sdk::part(1, 0)}).adapter("gate"), ExitCode::usage,
                    "test: 'gate' is 'gate.weight', a part of "
                    "'model.layers.{L}.mlp.gate_up.weight'\n  name the whole module: 'gate_up'");
}

}  // namespace
}  // namespace lamina::testing
