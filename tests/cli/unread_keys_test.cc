// Messages about keys of config.json that are never read, and about keys that only change training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/trained_run.h"
#include "support/goldens.h"
#include "support/published_model.h"
#include "support/temp_dir.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;

// A golden case with additional members in its config.json.
class ForeignCase {
 public:
  ForeignCase() {
    const fs::path from = lamina::testing::golden_dir() / "hf" / "llama3_gqa";
    path_ = lamina::testing::add_published_model(folder_, from);
    for (const char* file : {"golden.safetensors", "golden.json"})
      fs::create_symlink(fs::absolute(from / file), fs::path(path_) / file);
    std::ifstream in(from / "config.json");
    std::string config{std::istreambuf_iterator<char>(in), {}};
    const std::string zero = "\"attention_dropout\": 0.0";
    config.replace(config.find(zero), zero.size(),
                   R"("attention_dropout": 0.5, "residual_dropout": 0.1, "ffn_dropout_rate": 0.2,
                      "embedding_dropout": 0.0, "classifier_dropout": 0.3,
                      "vision_config": {"dropout_prob": 0.4}, "zebra": 1, "alibi": {"slope": 2, "heads": 3},
                      "time_step_limit": [0.0, Infinity])");
    folder_.write("model/config.json", config);
  }
  const std::string& path() const { return path_; }
  const lamina::testing::TempDir& folder() const { return folder_; }

 private:
  lamina::testing::TempDir folder_;
  std::string path_;
};

TEST(UnreadKeys, AreListedWithVerbose) {
  const ForeignCase model;
  const std::vector<std::string> words = {"decode", "-m", model.path(), "--ids", "1,2", "-n", "1"};
  EXPECT_THAT(lamina_program(words).err, Not(HasSubstr("alibi")));
  std::vector<std::string> verbose = words;
  verbose.emplace_back("-v");
  const Finished result = lamina_program(verbose);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("unused keys of the model: alibi ("));
  EXPECT_THAT(result.err, HasSubstr("config.json:8), time_step_limit ("));
  EXPECT_THAT(result.err, HasSubstr("zebra ("));
}

TEST(UnreadKeys, AreListedByVerify) {
  const ForeignCase model;
  const Finished result = lamina_program({"verify", model.path()});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("unused keys: alibi ("));
  EXPECT_THAT(lamina_program({"verify", model.path(), "--json"}).out,
              HasSubstr("\"unread_keys\": ["));
}

TEST(UnreadKeys, ThoseThatChangeOtherModelsGiveOneWarning) {
  TempDir folder;
  const std::string path = lamina::testing::add_published_model(
      folder, lamina::testing::golden_dir() / "hf" / "llama3_gqa");
  std::ifstream in(path + "/config.json");
  std::string config{std::istreambuf_iterator<char>(in), {}};
  config.insert(config.find('{') + 1,
                R"("alibi": true, "embedding_multiplier": 1.0, "residual_multiplier": 0.5,
                   "sliding_window": 16,)");
  folder.write("model/config.json", config);
  folder.write("text.txt", lamina::testing::text_of_words(40));
  const std::string run = folder.write("run.toml",
                                       "[data]\ntrain = [\"text.txt\"]\nsequence_length = 8\n"
                                       "[train]\nfrom = \"model\"\nsteps = 1\nbatch_size = 1\n");
  const std::string says = "family 'llama2' does not read 'alibi' = true (" + path +
                           "/config.json:1), 'residual_multiplier' = 0.5 (" + path +
                           "/config.json:1); such keys change what other models compute: compare "
                           "the model with its original, as docs/verify.md says, or remove keys "
                           "that the original ignores";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"decode", "-m", path, "--ids", "1,2", "-n", "1"},
        {"embed", "-m", path, "--ids", "1,2", "-o", folder / "states.safetensors"},
        {"train", run, "--out", folder / "out"}}) {
    const Finished result = lamina_program(words);
    EXPECT_EQ(result.code, 0) << result.err;
    const std::size_t at = result.err.find(says);
    ASSERT_NE(at, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("such keys change", at + says.size()), std::string::npos);
    EXPECT_THAT(result.err, Not(HasSubstr("embedding_multiplier")));
    EXPECT_THAT(result.err, Not(HasSubstr("sliding_window")));
  }
  EXPECT_THAT(lamina_program({"decode", "-m", path, "--ids", "1", "-n", "1", "-v"}).err,
              HasSubstr("sliding_window (" + path +
                        "/config.json:2; family 'llama2' reads it as 'lamina.sliding_window')"));
}

TEST(UnreadKeys, TrainingKeysGiveAWarningInTraining) {
  const ForeignCase model;
  model.folder().write("text.txt", lamina::testing::text_of_words(40));
  const std::string run =
      model.folder().write("run.toml",
                           "[data]\ntrain = [\"text.txt\"]\nsequence_length = 8\n"
                           "[train]\nfrom = \"model\"\nsteps = 1\nbatch_size = 1\n");
  const Finished result = lamina_program({"train", run, "--out", model.folder() / "out"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.err,
      HasSubstr("the original was trained with dropout of attention's probabilities, but this "
                "run has none unless 'model.attention_dropout_rate' is set"));
  EXPECT_THAT(result.err,
              HasSubstr("'residual_dropout' is 0.1 (" + model.path() +
                        "/config.json:6): the original was trained with dropout after each "
                        "sub-layer, but this run has none unless 'model.dropout_rate' is set"));
  EXPECT_THAT(result.err, HasSubstr("'ffn_dropout_rate' is 0.2 ("));
  for (const char* silent : {"embedding_dropout", "classifier_dropout", "vision_config"})
    EXPECT_THAT(result.err, Not(HasSubstr(silent)));
  EXPECT_THAT(lamina_program({"decode", "-m", model.path(), "--ids", "1", "-n", "1"}).err,
              Not(HasSubstr("dropout")));
}

TEST(UnreadKeys, TrainingWarnsOfADeviationThatTheInitialisationDoesNotRead) {
  const TempDir folder;
  const std::string says =
      "'model.initializer_range' has no effect, because 'model.initializer' is";
  const auto warnings = [&](const std::string& out, const std::vector<std::string>& sets) {
    std::vector<std::string> more = {"--quiet"};
    for (const std::string& set : sets) more.insert(more.end(), {"--set", set});
    const Finished f = train_tiny(folder, out, more);
    EXPECT_EQ(f.code, 0) << f.err;
    return f.err;
  };
  EXPECT_THAT(warnings("both", {"model.initializer=maxtext", "model.initializer_range=0.5"}),
              HasSubstr("warning: --set model.initializer_range=0.5: " + says));
  EXPECT_THAT(warnings("one", {"model.initializer=maxtext"}), Not(HasSubstr(says)));
  EXPECT_THAT(warnings("other", {"model.initializer_range=0.5"}), Not(HasSubstr(says)));
}

}  // namespace
}  // namespace lamina::cli
