// Every file of configs/models has the parameter counts of the model in its name, and each phase
// traces and compiles without weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "backends/cpu/backend.h"
#include "cli/shell/units.h"
#include "inspect/plan/model_plan.h"
#include "program/bound_program.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/paths.h"
#include "train/optimizer/gradients.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::open_model;

const fs::path kModels = LAMINA_SOURCE_DIR "/configs/models";

// A line of shipped_models.txt.
struct Counted {
  std::int64_t total = 0, active = 0, active_non_embedding = 0, embedding = 0, head = 0, routed = 0;
};

const std::map<std::string, Counted>& counted_models() {
  static const std::map<std::string, Counted> models = [] {
    std::map<std::string, Counted> out;
    std::ifstream in(LAMINA_SOURCE_DIR "/tests/cli/shipped_models.txt");
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with('#')) continue;
      std::istringstream fields(line);
      std::string name;
      Counted c;
      fields >> name >> c.total >> c.active >> c.active_non_embedding >> c.embedding >> c.head >>
          c.routed;
      out[name] = c;
    }
    return out;
  }();
  return models;
}

std::vector<std::string> shipped_models() {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(kModels)) out.insert(entry.path().stem());
  return {out.begin(), out.end()};
}

class ShippedModel : public ::testing::TestWithParam<std::string> {
 protected:
  fs::path path() const { return kModels / (GetParam() + ".toml"); }
};

TEST_P(ShippedModel, HasTheParametersOfItsName) {
  const inspect::ParameterCounts counts = inspect::count_parameters(open_model(path()));
  std::ifstream in(path());
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(text, ::testing::HasSubstr(thousands_text(counts.total) + " parameters"));
  auto known = counted_models().find(GetParam());
  if (known == counted_models().end()) return;  // a model of this project
  const Counted& want = known->second;
  EXPECT_EQ(counts.total, want.total);
  EXPECT_EQ(counts.active, want.active);
  EXPECT_EQ(counts.active_non_embedding, want.active_non_embedding);
  EXPECT_EQ(counts.embedding, want.embedding);
  EXPECT_EQ(counts.head, want.head);
  EXPECT_EQ(counts.routed, want.routed);
}

TEST_P(ShippedModel, IsTracedAndCompiledInEveryPhase) {
  decoder::Model model = open_model(path());
  const Backend& backend = cpu::cpu_backend();
  const std::int64_t tokens =
      std::min<std::int64_t>(512, model.config().max_positions().value_or(512));
  for (DType dtype : {DType::bf16, DType::f32}) {
    for (std::int64_t call : {std::int64_t{1}, tokens})
      program::BoundProgram(model.decode_graph({1, call, dtype}, {tokens, tokens}), backend);
    program::BoundProgram(
        train::add_gradients(
            model.loss_graph({1, tokens, dtype}, {.segments = true, .training = true, .aux = true}),
            model.parameters(), train::find_remat_policy("minimal").save_policy()),
        backend);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShippedModel, ::testing::ValuesIn(shipped_models()),
                         [](const auto& test) { return lamina::testing::test_name(test.param); });

TEST(ShippedModels, AreAllThatAreCounted) {
  std::vector<std::string> shipped = shipped_models();
  for (const auto& [name, counted] : counted_models())
    EXPECT_THAT(shipped, ::testing::Contains(name));
}

}  // namespace
}  // namespace lamina::cli
