// Every model file of MaxText: the run file made from it has the model's parameters.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "core/json.h"
#include "imports/run_file.h"
#include "imports/table.h"
#include "inspect/plan/model_plan.h"
#include "support/goldens.h"
#include "support/models.h"
#include "train/optimizer/parameter_groups.h"

namespace lamina::imports {
namespace {

namespace fs = std::filesystem;
using lamina::testing::golden_dir;

fs::path base_file() { return golden_dir() / "maxtext_configs" / "base.yml"; }

std::vector<fs::path> model_files() {
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& entry :
       fs::directory_iterator(golden_dir() / "maxtext_configs" / "models", none))
    out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

class PublishedConfiguration : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PublishedConfiguration);

TEST_P(PublishedConfiguration, HasTheParametersOfItsModel) {
  const Imported imported = import_run(read_configuration(GetParam(), {}));
  const decoder::Model model = lamina::testing::open_source(
      config::parse_run(imported.toml, GetParam().filename().string()).model);
  const JsonDocument expected = JsonDocument::read(golden_dir() / "params.json");
  const JsonValue row = expected.root().at("models").find(GetParam().stem().string());
  ASSERT_TRUE(row) << "params.json does not know it";
  EXPECT_EQ(inspect::count_parameters(model).total, row.at("total").as_int64());
}

// A group that matches no parameter or has no effect is an error.
TEST_P(PublishedConfiguration, HasGroupsThatFitItsParameters) {
  std::optional<decoder::Model> model;  // for every optimizer
  for (const char* type : {"adamw", "sgd", "muon"}) {
    SCOPED_TRACE(type);
    const Imported imported =
        import_run(read_configuration(GetParam(), {std::string("opt_type=") + type}));
    const config::RunConfig run = config::parse_run(imported.toml, "run.toml");
    if (!model) model.emplace(lamina::testing::open_source(run.model));
    const auto learning = train::learning_of(model->parameters(), run.optimizer.groups);
    for (std::size_t i = 0; i < learning.size(); ++i) {
      const decoder::Parameter& p = model->parameters().all()[i];
      EXPECT_TRUE(run.optimizer.name == "sgd" || learning[i].weight_decay) << p.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublishedConfiguration, ::testing::ValuesIn(model_files()),
                         [](const auto& test) {
                           return lamina::testing::test_name(test.param.stem().string());
                         });

// A key of base.yml that the table lacks is reported; base.yml has none.
TEST(PublishedBase, HasNoKeyThatTheTableDoesNotKnow) {
  if (!fs::exists(base_file())) GTEST_SKIP() << "there is no " << base_file();
  for (const std::string& line : import_run(read_configuration(base_file(), {})).said)
    EXPECT_EQ(line.find("unknown to lamina"), line.npos) << line;
}

// Values that are kept and not converted equal MaxText's.
TEST(PublishedBase, HasTheKeptValues) {
  if (!fs::exists(base_file())) GTEST_SKIP() << "there is no " << base_file();
  std::map<std::string, config::Value> base;
  for (const YamlSetting& setting : read_yaml(base_file())) base[setting.key] = setting.value;
  for (const auto& [key, value] : key_table().kept) {
    if (!base.contains(key)) continue;
    EXPECT_EQ(config::to_toml(base[key]), config::to_toml(value)) << key;
  }
}

}  // namespace
}  // namespace lamina::imports
