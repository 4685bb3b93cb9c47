// Mistakes when a run is continued, and damaged run directories.
#include "errors/workplace.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

TEST(ResumeErrors, SettingsThatShapeARunMayNotChange) {
  Workplace w;
  w.train();
  w.expect({{"train", "run.toml", "--set", "optimizer.lr=0.5", "--set", "model.hidden_size=20"},
            2,
            {"out/checkpoints/step-00000004: belongs to a run with other settings",
             "optimizer.lr was 0.0003 and is 0.5 now", "model.hidden_size was 16 and is 20 now",
             "continue with the old values, or start a new run with another --out"}});
  // The refused commands did not change the run.
  Finished f = w.lamina({"train", "run.toml", "--set", "train.steps=6", "--quiet"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_TRUE(w.exists("out/checkpoints/step-00000006/manifest.json"));
}

TEST(ResumeErrors, SettingsThatMayChangeAreNamed) {
  Workplace w;
  w.train();
  Finished f = w.lamina({"train", "run.toml", "--set", "train.steps=6"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, ::testing::HasSubstr("train.steps is 6 now, it was 4"));
}

TEST(ResumeErrors, AbsentSettingsThatMayChangeAreNamed) {
  Workplace w;
  std::vector<std::string> words = {"train", "run.toml", "--set", "data.validation_fraction=0.2"};
  ASSERT_EQ(w.lamina(words).code, 0);
  const auto resume = [&](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return w.lamina(words).err;
  };
  EXPECT_THAT(resume({"--set", "train.steps=6", "--set", "train.eval_batches=2"}),
              ::testing::HasSubstr("train.eval_batches is 2 now, it was absent\n"));
  words.resize(4);
  EXPECT_THAT(resume({"--set", "train.steps=8"}),
              ::testing::HasSubstr("train.eval_batches is absent now, it was 2\n"));
}

TEST(ResumeErrors, OtherDataIsRefused) {
  Workplace w;
  w.train();
  w.write("text.txt", w.read("text.txt") + "And more.\n");
  w.expect({{"train", "run.toml", "--set", "train.steps=6"},
            5,
            {"out/checkpoints/step-00000004: was made with other data than data.train and "
             "data.validation give now",
             "restore the files, or start a new run with another run.out"}});
}

TEST(ResumeErrors, DataMayMoveIfTheyDoNotChange) {
  Workplace w;
  w.train();
  fs::rename(w.path("text.txt"), w.path("moved.txt"));
  const Finished f =
      w.lamina({"train", "run.toml", "--set", "train.steps=6", "--set", "data.train=moved.txt"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, ::testing::HasSubstr("data.train is ["));
}

TEST(ResumeErrors, AProjectMayMoveAsAWhole) {
  Workplace w;
  w.write("here/run.toml",
          w.read("run.toml") + "[lora]\nrank = 2\n[distillation]\nteacher = \"t\"\n");
  w.write("here/text.txt", w.read("text.txt"));
  w.train();
  fs::rename(w.path("out"), w.path("here/t"));
  const std::vector<std::string> words = {"train", "here/run.toml", "--set",
                                          "data.validation_fraction=0.2"};
  Finished f = w.lamina(words);
  ASSERT_EQ(f.code, 0) << f.err;
  fs::rename(w.path("here"), w.path("there"));
  f = w.lamina({"train", "there/run.toml", "--set", "data.validation_fraction=0.2", "--set",
                "train.steps=6"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_TRUE(w.exists("there/out/checkpoints/step-00000006/manifest.json"));
  // Its run file was written before the move.
  f = w.lamina({"eval", "there/out/checkpoints/step-00000004"});
  EXPECT_EQ(f.code, 0) << f.err;
}

TEST(ResumeErrors, AFreshStartNeverMixesWithAnEarlierRun) {
  Workplace w;
  w.train();
  w.expect({{"train", "run.toml", "--resume", "none"},
            2,
            {"out: has checkpoints of an earlier run", "choose another --out, or --resume auto"}});
}

TEST(ResumeErrors, ADryRunRefusesWhatTheRunRefuses) {
  Workplace w;
  w.train();
  for (const char* plan : {"--dry-run", "--fit"}) {
    EXPECT_EQ(w.lamina({"train", "run.toml", plan, "--set", "train.steps=6"}).code, 0);
    w.expect({{"train", "run.toml", plan, "--resume", "none"},
              2,
              {"out: has checkpoints of an earlier run", "choose another --out"}});
    w.expect({{"train", "run.toml", plan, "--set", "optimizer.lr=0.5"},
              2,
              {"belongs to a run with other settings", "optimizer.lr was 0.0003 and is 0.5 now"}});
    w.expect({{"train", "run.toml", plan, "--out", "other", "--resume", "out"},
              2,
              {"step-00000004: is at step 4, and 'train.steps' is 4: there is nothing to train"}});
  }
  fs::resize_file(w.path("out/checkpoints/step-00000004/optimizer.safetensors"), 100);
  w.expect({{"train", "run.toml", "--dry-run", "--resume", "out/checkpoints/step-00000004"},
            4,
            {"the checkpoint is damaged; resume from an older one with --resume PATH"}});
  EXPECT_EQ(w.lamina({"train", "run.toml", "--dry-run"}).code, 0);
  EXPECT_TRUE(w.exists("out/checkpoints/step-00000004"));  // not set aside
}

// A checkpoint has all that its run began with.
TEST(ResumeErrors, AResumedRunIsPlannedWithoutTheDirectoryThatItBeganWith) {
  Workplace w;
  w.train();
  ASSERT_EQ(w.lamina({"ckpt", "export", "out", "--to", "start"}).code, 0);
  w.write("tuned.toml",
          "[data]\ntrain = [\"text.txt\"]\nsequence_length = 24\n"
          "[train]\nfrom = \"start\"\nsteps = 4\nbatch_size = 4\n[run]\nout = \"tuned\"\n");
  const Finished begun = w.lamina({"train", "tuned.toml", "--set", "train.steps=2"});
  ASSERT_EQ(begun.code, 0) << begun.err;
  fs::remove_all(w.path("start"));
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--dry-run"}, {"--fit"}, {}}) {
    std::vector<std::string> words = {"train", "tuned.toml"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished f = w.lamina(words);
    EXPECT_EQ(f.code, 0) << f.err;
  }
}

TEST(ResumeErrors, ResumesOnlyFromCheckpoints) {
  Workplace w;
  fs::create_directory(w.path("empty"));
  w.expect({{"train", "run.toml", "--resume", "nowhere"},
            4,
            {"nowhere: no such directory; expected a checkpoint or a run directory"}});
  w.expect({{"train", "run.toml", "--resume", "run.toml"},
            4,
            {"run.toml: is not a directory; expected a checkpoint or a run directory"}});
  w.expect(
      {{"train", "run.toml", "--resume", "empty"}, 4, {"empty: contains no model", "it is empty"}});
  w.expect({{"train", "run.toml", "--resume", golden_model("llama3_gqa")},
            4,
            {"llama3_gqa: contains no optimizer state, so training cannot resume from it"}});
  EXPECT_FALSE(w.exists("out/checkpoints"));
}

TEST(ResumeErrors, AnotherRunWithoutStepsLeftIsRefusedBeforeAnythingIsRenamed) {
  Workplace w;
  w.train();
  w.expect({{"train", "run.toml", "--out", "other", "--resume", "out"},
            2,
            {"out/checkpoints/step-00000004: is at step 4, and 'train.steps' is 4: there is "
             "nothing to train",
             "raise train.steps"}});
  EXPECT_FALSE(w.exists("other/checkpoints/step-00000004"));
  ASSERT_EQ(w.lamina({"train", "run.toml", "--out", "other"}).code, 0);
  w.expect({{"train", "run.toml", "--out", "other", "--resume", "out"}, 2, {"nothing to train"}});
  EXPECT_TRUE(w.exists("other/checkpoints/step-00000004"));
}

TEST(ResumeErrors, ACheckpointThatWasSetAsideIsRefusedWithoutStepsLeft) {
  const Workplace w;
  const std::string newest = "out/checkpoints/step-00000004", aside = newest + ".set-aside";
  w.train();
  ASSERT_EQ(w.lamina({"train", "run.toml", "--resume", "out/checkpoints/step-00000002"}).code, 0);
  ASSERT_TRUE(w.exists(aside));
  for (const std::string& named : {aside, aside + "/"})
    w.expect({{"train", "run.toml", "--resume", named},
              2,
              {"is at step 4, and 'train.steps' is 4: there is nothing to train"}});
  EXPECT_TRUE(w.exists(newest));
  EXPECT_FALSE(w.exists(aside + "-2"));
  const Finished f = w.lamina({"train", "run.toml", "--resume", aside, "--set", "train.steps=6"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_TRUE(w.exists("out/checkpoints/step-00000006"));
  EXPECT_TRUE(w.exists(aside + "-2"));
}

TEST(ResumeErrors, ACheckpointNamedWithASlashAtTheEndBelongsToItsRun) {
  const Workplace w;
  w.train();
  fs::create_directory_symlink(w.path("out/checkpoints/step-00000004"), w.path("link"));
  for (const char* named : {"out/checkpoints/step-00000004/", "link"}) {
    const Finished f = w.lamina({"train", "run.toml", "--resume", named});
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_TRUE(w.exists("out/checkpoints/step-00000002")) << named;
    EXPECT_TRUE(w.exists("out/checkpoints/step-00000004")) << named;
  }
}

TEST(ResumeErrors, ADamagedCheckpointThatIsAskedForIsNotUsed) {
  Workplace w;
  w.train();
  fs::path file = w.path("out/checkpoints/step-00000004/optimizer.safetensors");
  fs::resize_file(file, fs::file_size(file) - 5);
  w.expect(
      {{"train", "run.toml", "--set", "train.steps=6", "--resume", "out/checkpoints/step-00000004"},
       4,
       {"optimizer.safetensors: has ", " bytes; expected ",
        "the checkpoint is damaged; resume "
        "from an older one with --resume PATH"}});
}

TEST(ResumeErrors, ADirectoryWithoutManifestIsSetAsideWithAWarning) {
  Workplace w;
  w.train();
  fs::remove(w.path("out/checkpoints/step-00000004/manifest.json"));
  Finished f = w.lamina({"train", "run.toml"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, ::testing::HasSubstr("step-00000004.damaged has no manifest.json"));
  EXPECT_THAT(f.err, ::testing::HasSubstr("step-00000002 (step 2)"));
  EXPECT_TRUE(w.exists("out/checkpoints/step-00000004/manifest.json"));
  EXPECT_TRUE(w.exists("out/checkpoints/step-00000004.damaged/model.safetensors"));
}

TEST(ResumeErrors, ACheckpointOfALaterVersionDiffersFromDamage) {
  Workplace w;
  w.train();
  std::string manifest = w.read("out/checkpoints/step-00000004/manifest.json");
  std::size_t at = manifest.find("\"version\"");
  ASSERT_NE(at, manifest.npos);
  manifest.replace(manifest.find_first_of("0123456789", at), 1, "99");
  w.write("out/checkpoints/step-00000004/manifest.json", manifest);
  w.expect({{"train", "run.toml", "--set", "train.steps=6"}, 4, {"manifest.json", "99"}});
}

}  // namespace
}  // namespace lamina::testing
