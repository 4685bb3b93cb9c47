// Environment variables: checked by every command, and keys of models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/trained_run.h"
#include "core/json.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::run_process;
using ::testing::HasSubstr;

Finished with_variable(const std::string& variable, std::vector<std::string> words) {
  words.insert(words.begin(), LAMINA_BUILD_DIR "/bin/lamina");
  return run_process(words, {.environment = {variable}});
}

const std::vector<std::string> kPlan = {"plan", LAMINA_SOURCE_DIR "/configs/models/gpt2-124m.toml",
                                        "--json"};

TEST(Environment, MisspelledVariablesAreErrorsOfEveryCommand) {
  const std::vector<std::vector<std::string>> commands = {
      {"decode", "-m", trained_run(), "--ids", "1,2", "-n", "1"},
      kPlan,
      {"plugin", "list"},
      {"ckpt", "ls", trained_run()}};
  for (const auto& words : commands)
    for (const auto& [variable, says] :
         {std::pair{"LAMINA_TRIAN__STEPS=3", "LAMINA_TRIAN__STEPS: unknown key 'trian.steps'"},
          {"LAMINA_TRAIN_STEPS=3", "did you mean LAMINA_TRAIN__STEPS?"},
          {"LAMINA_PLUGIN_PTH=/x", "did you mean LAMINA_PLUGIN_PATH?"}}) {
      const Finished result = with_variable(variable, words);
      EXPECT_EQ(result.code, 2) << words[0] << " " << variable;
      EXPECT_THAT(result.err, HasSubstr(says)) << words[0];
    }
}

TEST(Environment, KeysOfTheModelOverrideItsDescription) {
  const Finished result = with_variable("LAMINA_MODEL__NUM_HIDDEN_LAYERS=3", kPlan);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(JsonDocument::parse(result.out, "plan").root().at("num_layers").as_int64(), 3);
}

TEST(Environment, SetHasPrecedence) {
  std::vector<std::string> words = kPlan;
  words.insert(words.end(), {"--set", "model.num_hidden_layers=2"});
  const Finished result = with_variable("LAMINA_MODEL__NUM_HIDDEN_LAYERS=3", words);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(JsonDocument::parse(result.out, "plan").root().at("num_layers").as_int64(), 2);
}

TEST(Environment, DecodeReportsUnknownKeysOfTheModel) {
  const Finished result = with_variable("LAMINA_MODEL__ROPE_THETTA=3",
                                        {"decode", "-m", trained_run(), "--ids", "1,2", "-n", "1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("LAMINA_MODEL__ROPE_THETTA: unknown key 'model.rope_thetta'"));
}

TEST(Environment, DecodeUsesKeysOfTheModel) {
  const std::vector<std::string> words = {"decode", "-m",     trained_run(), "--ids",  "65,66,67",
                                          "-n",     "1",      "--temp",      "0",      "--logprobs",
                                          "1",      "--json", "--dtype",     "float32"};
  const Finished plain = with_variable("LAMINA_PIN=0", words);
  const Finished changed = with_variable("LAMINA_MODEL__RMS_NORM_EPS=1.0", words);
  ASSERT_EQ(plain.code, 0) << plain.err;
  ASSERT_EQ(changed.code, 0) << changed.err;
  const auto logprobs = [](const std::string& out) {
    return out.substr(out.find("\"logprobs\""), 200);
  };
  EXPECT_NE(logprobs(plain.out), logprobs(changed.out));
}

TEST(Environment, KeysOfRunsHaveNoEffectOnModels) {
  const Finished result = with_variable("LAMINA_TRAIN__STEPS=3", kPlan);
  EXPECT_EQ(result.code, 0) << result.err;
}

}  // namespace
}  // namespace lamina::cli
