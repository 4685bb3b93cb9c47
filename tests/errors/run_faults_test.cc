// Faults of run directories: lost data, mixed data, missing messages.
#include <fstream>
#include <regex>

#include "core/json.h"
#include "errors/workplace.h"
#include "io/manifest.h"
#include "support/sanitizers.h"
#include "train/loop/run_directory.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOlder = "out/checkpoints/step-00000002";
constexpr const char* kNewest = "out/checkpoints/step-00000004";

void flip_last_byte(const Workplace& w, const std::string& name) {
  std::string bytes = w.read(name);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  w.write(name, bytes);
}

// The steps of the lines with a loss, in order.
std::vector<std::int64_t> steps_in(const Workplace& w, const std::string& name) {
  std::vector<std::int64_t> out;
  std::ifstream file(w.path(name));
  for (std::string line; std::getline(file, line);) {
    const JsonDocument record = JsonDocument::parse(line, name, {});
    if (record.root().find("train/loss")) out.push_back(record.root().at("step").as_int64());
  }
  return out;
}

const std::vector<std::int64_t> kOneToFour = {1, 2, 3, 4};

TEST(DamagedCheckpoints, ResumingFromAnOlderOneSetsNewerOnesAside) {
  Workplace w;
  w.train();
  const std::string before = w.read("out/metrics.jsonl");
  Finished f = w.lamina({"train", "run.toml", "--resume", kOlder});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("warning: "));
  EXPECT_THAT(f.err, HasSubstr(std::string("renamed to ") + kNewest + ".set-aside"));
  EXPECT_TRUE(w.exists(std::string(kNewest) + "/manifest.json"));
  EXPECT_TRUE(w.exists(std::string(kNewest) + ".set-aside/manifest.json"));
  EXPECT_EQ(steps_in(w, "out/metrics.jsonl"), kOneToFour);
  EXPECT_EQ(w.lamina({"ckpt", "verify", "out"}).code, 0);
  // The second time the name is taken.
  f = w.lamina({"train", "run.toml", "--resume", kOlder});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_TRUE(w.exists(std::string(kNewest) + ".set-aside-2/manifest.json"));
}

TEST(DamagedCheckpoints, ADamagedNewestOneDoesNotStopUnattendedRestarts) {
  for (const char* file : {"manifest.json", "model.safetensors", "optimizer.safetensors",
                           "run.toml", "model.toml", "lamina_tokenizer.json"}) {
    Workplace w;
    w.train();
    fs::resize_file(w.path(std::string(kNewest) + "/" + file), 0);
    Finished f = w.lamina({"train", "run.toml"});
    EXPECT_EQ(f.code, 0) << file << f.err;
    EXPECT_THAT(f.err, HasSubstr(std::string("step-00000004/") + file)) << file;
    EXPECT_THAT(f.err, HasSubstr(std::string("renamed to ") + kNewest + ".damaged")) << file;
    EXPECT_THAT(f.err, HasSubstr("step-00000002 (step 2)")) << file;
    EXPECT_TRUE(w.exists(std::string(kNewest) + "/manifest.json")) << file;
    EXPECT_EQ(steps_in(w, "out/metrics.jsonl"), kOneToFour) << file;
  }
}

TEST(DamagedCheckpoints, AFlippedBitIsFoundWhenTrainingResumes) {
  for (const char* file : {"/model.safetensors", "/optimizer.safetensors"}) {
    Workplace w;
    w.train();
    flip_last_byte(w, std::string(kNewest) + file);
    Finished f = w.lamina({"train", "run.toml", "--set", "train.steps=5"});
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_THAT(f.err, HasSubstr("does not match its checksum"));
    EXPECT_THAT(f.err, HasSubstr("step-00000002 (step 2)"));
    EXPECT_TRUE(w.exists(std::string(kNewest) + ".damaged" + file));
  }
}

TEST(DamagedCheckpoints, FilesOfAnotherStepAreFound) {
  Workplace w;
  w.train();
  const std::string file = "/model.safetensors";
  fs::copy_file(w.path(kOlder + file), w.path(kNewest + file),
                fs::copy_options::overwrite_existing);
  w.expect({{"train", "run.toml", "--set", "train.steps=5", "--resume", kNewest},
            4,
            {"step-00000004/model.safetensors: its header does not match its checksum",
             "the checkpoint is damaged; resume from an older one with --resume PATH"}});
  w.expect({{"decode", "-m", "out", "-p", "a"},
            4,
            {"step-00000004/model.safetensors: its header does not match its checksum",
             "use another checkpoint"}});
}

TEST(DamagedCheckpoints, DecodeDoesNotFillACutModelFileWithDefaults) {
  Workplace w;
  w.train();
  const std::string file = std::string(kNewest) + "/model.toml";
  fs::resize_file(w.path(file), fs::file_size(w.path(file)) - 30);
  w.expect({{"decode", "-m", "out", "-p", "a"},
            4,
            {"step-00000004/model.toml: has ", " bytes; expected "}});
}

// Trains in the background, runs the other line after training has begun, and stops training with
// the signal. The line may exit early; training has ended in every case.
Finished beside_training(const Workplace& w, const std::string& line, const std::string& signal) {
  return run_shell(
      "\"$lamina\" train run.toml --quiet --set train.steps=1000000 --set "
      "checkpoint.every_steps=1 --set checkpoint.keep=1 & first=$!\n"
      "trap 'kill -KILL $first 2>/dev/null' EXIT\n"
      "until ls out/checkpoints 2>/dev/null | grep -qx 'step-[0-9]*'; do sleep 0.02; done\n" +
          line + "\ncode=$?\nkill -" + signal +
          " $first; wait $first; echo first $? >&2; exit $code",
      {.environment = {"LAMINA_PIN=0", "lamina=" LAMINA_BUILD_DIR "/bin/lamina"},
       .folder = w.path("").string()});
}

TEST(TwoTrainers, TheSecondIsRefusedAndTheFirstNotHarmed) {
  Workplace w;
  Finished f = beside_training(
      w, "\"$lamina\" train run.toml --set train.steps=1000000 --set checkpoint.every_steps=1",
      "TERM");
  EXPECT_EQ(f.code, 4) << f.err;
  EXPECT_TRUE(std::regex_search(f.err, std::regex("error: .*out: is in use by process [0-9]+ on ")))
      << f.err;
  EXPECT_THAT(f.err, HasSubstr("wait until it ends or stop it, or choose another --out"));
  EXPECT_THAT(f.err, HasSubstr("first 75"));
}

TEST(TwoTrainers, TheLockOfAKilledOneIsFree) {
  Workplace w;
  EXPECT_THAT(beside_training(w, "true", "KILL").err, HasSubstr("first 137"));
  Finished f = w.lamina({"train", "run.toml", "--set", "train.steps=1", "--quiet"});
  EXPECT_EQ(f.code, 0) << f.err;
}

TEST(RunDirectory, ARefusedRunMakesNone) {
  Workplace w;
  w.expect({{"train", "run.toml", "--set", "data.train=[\"nowhere.txt\"]"}, 5, {"nowhere.txt"}});
  EXPECT_FALSE(w.exists("out"));
}

TEST(WriteFaults, AnOldCheckpointThatCannotBeRemovedIsAWarning) {
  Workplace w;
  w.train();
  // The name is too long to be renamed.
  const std::string old = "out/checkpoints/step-" + std::string(245, '0') + "1";
  fs::create_directory(w.path(old));
  w.write(old + "/manifest.json", "");
  Finished f =
      w.lamina({"train", "run.toml", "--set", "train.steps=6", "--set", "checkpoint.keep=1"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("warning: an old checkpoint stays, its removal is tried again"));
  EXPECT_TRUE(w.exists("out/checkpoints/step-00000006/manifest.json"));
  EXPECT_FALSE(w.exists(kNewest));
}

TEST(SignalFaults, AnEarlySignalToSaveDoesNotKill) {
  LAMINA_SKIP_IF_SANITIZED("it starts before our handlers, and takes longer than the test waits");
  Workplace w;
  std::string text;
  while (text.size() < 4'000'000) text += "In the beginning was the word, and it was long.\n";
  w.write("text.txt", text);
  Finished f = run_shell("\"$lamina\" train run.toml & sleep 0.03; kill -USR1 $!; wait $!",
                         {.environment = {"LAMINA_PIN=0", "lamina=" LAMINA_BUILD_DIR "/bin/lamina"},
                          .folder = w.path("").string()});
  EXPECT_EQ(f.code, 0) << f.err;
}

TEST(SignalFaults, AStopBeforeTheFirstStepLeavesNoDirectory) {
  Workplace w;
  std::string text;
  while (text.size() < 40'000'000) text += "In the beginning was the word, and it was long.\n";
  w.write("text.txt", text);
  const Finished f = run_shell(
      "\"$lamina\" train run.toml --set data.document_separator=line & sleep 0.1; kill "
      "-TERM $!; wait $!",
      {.environment = {"LAMINA_PIN=0", "lamina=" LAMINA_BUILD_DIR "/bin/lamina"},
       .folder = w.path("").string()});
  EXPECT_EQ(f.code, 143) << f.err;
  EXPECT_FALSE(w.exists("out"));
}

// Wherever the signal arrives: at the start of the program, before the loop, or in it.
TEST(SignalFaults, AStopBeforeTheFirstStepSavesNothing) {
  const Workplace w;
  for (int ms = 5; ms < 65; ms += 3) {
    fs::remove_all(w.path("out"));
    const Finished f = run_shell(
        fmt::format("\"$lamina\" train run.toml --quiet --set train.steps=1000000 & sleep 0.{:03}; "
                    "kill -TERM $!; wait $!",
                    ms),
        {.environment = {"LAMINA_PIN=0", "lamina=" LAMINA_BUILD_DIR "/bin/lamina"},
         .folder = w.path("").string()});
    const std::string newest = train::newest_checkpoint(w.path("out").string());
    EXPECT_FALSE(newest.ends_with("step-00000000")) << ms;
    EXPECT_EQ(f.code, newest.empty() ? 143 : 75) << ms << f.err;
  }
}

TEST(DamagedCheckpoints, OnesWithoutManifestsAreNotIgnored) {
  Workplace w;
  w.train();
  for (const char* checkpoint : {kOlder, kNewest})
    fs::remove(w.path(std::string(checkpoint) + "/manifest.json"));
  const std::string metrics = w.read("out/metrics.jsonl");
  w.expect({{"train", "run.toml"},
            4,
            {"out: has checkpoints, but none is complete", "step-00000002: has no manifest.json",
             "step-00000004: has no manifest.json", "bring one back from a copy"}});
  EXPECT_TRUE(w.exists(kNewest));
  EXPECT_EQ(w.read("out/metrics.jsonl"), metrics);
  w.expect({{"train", "run.toml", "--resume", "none"}, 2, {"has checkpoints of an earlier run"}});
  w.expect({{"decode", "-m", "out", "-p", "a"}, 4, {"out: has checkpoints, but none is complete"}});
  w.expect({{"ckpt", "verify", "out"}, 4, {"step-00000002: has no manifest.json"}});
  EXPECT_THAT(w.lamina({"ckpt", "ls", "out"}).out, HasSubstr("incomplete: no manifest"));
}

TEST(DamagedCheckpoints, OnlyDamagedOnesDoNotRestartTheRun) {
  Workplace w;
  w.train();
  flip_last_byte(w, std::string(kOlder) + "/model.safetensors");
  flip_last_byte(w, std::string(kNewest) + "/optimizer.safetensors");
  for (int attempt = 0; attempt < 2; ++attempt)  // the first must not unblock the second
    w.expect({{"train", "run.toml"},
              4,
              {"out: has checkpoints, but none is complete", "step-00000002/model.safetensors",
               "step-00000004/optimizer.safetensors"}});
  fs::remove_all(w.path(kOlder));
  fs::rename(w.path(kNewest), w.path(std::string(kNewest) + ".damaged"));
  w.expect({{"train", "run.toml"}, 4, {"step-00000004.damaged: was set aside"}});
}

TEST(SignalFaults, TheCommandToResumeEqualsTheGivenOne) {
  Workplace w;
  Finished f = run_process(
      {"timeout", "--foreground", "--preserve-status", "-s", "INT", "1",
       LAMINA_BUILD_DIR "/bin/lamina", "train", "run.toml", "--out", "it's", "--set",
       "train.steps=1000000", "--set", "run.name=a b"},
      {.environment = {"LAMINA_PIN=0", "LAMINA_RUN__SEED=5"}, .folder = w.path("").string()});
  EXPECT_EQ(f.code, 75) << f.err;
  EXPECT_THAT(
      f.err,
      HasSubstr(
          "`LAMINA_RUN__SEED=5 lamina train run.toml --out 'it'\\''s' --set train.steps=1000000 "
          "--set 'run.name=a b' --resume auto` resumes the run"));
}

TEST(SignalFaults, TheCommandToResumeHasTheFormatsOfWeights) {
  Workplace w;
  w.train();
  Finished f = run_process({"timeout",
                            "--foreground",
                            "--preserve-status",
                            "-s",
                            "INT",
                            "1",
                            LAMINA_BUILD_DIR "/bin/lamina",
                            "train",
                            "run.toml",
                            "--out",
                            "tuned",
                            "--set",
                            "train.from=out",
                            "--set",
                            "lora.rank=2",
                            "--set",
                            "train.steps=1000000",
                            "--quantize",
                            "int8",
                            "--quantize-rule",
                            "embedding=none"},
                           {.environment = {"LAMINA_PIN=0"}, .folder = w.path("").string()});
  EXPECT_EQ(f.code, 75) << f.err;
  EXPECT_THAT(f.err, HasSubstr("--set train.steps=1000000 --quantize int8 --quantize-rule "
                               "embedding=none --resume auto` resumes"));
}

TEST(DamagedCheckpoints, OnesThatTrainingRemovesAreNotReported) {
  Workplace w;
  Finished f = beside_training(w,
                               "for i in 1 2 3 4 5 6 7 8; do \"$lamina\" ckpt verify out && "
                               "\"$lamina\" ckpt ls -v out && \"$lamina\" ckpt export out --to e$i "
                               "&& \"$lamina\" decode -m out -p a -n 1 || exit 9; done",
                               "TERM");
  EXPECT_EQ(f.code, 0) << f.err;
}

TEST(DamagedCheckpoints, ANegativeStepInAManifestIsRefused) {
  Workplace w;
  w.train();
  const std::string checkpoint = w.path(kNewest).string();
  const io::FileManifest manifest = io::read_manifest(checkpoint);
  io::write_manifest(checkpoint, manifest.files, [&](JsonWriter& json) {
    for (const auto& [key, value] : manifest.info().members())
      key == "step" ? json.key(key).value(std::int64_t{-3}) : json.key(key).value(value);
  });
  w.expect({{"train", "run.toml"}, 4, {"manifest.json", "step", "must be 0 or more, got -3"}});
}

TEST(RunDirectory, LeftoversOfAnotherContainerAreRemoved) {
  Workplace w;
  // The name contains the id of process 1, which always exists, and is a name that this run would
  // use.
  w.write("text.txt", w.read("text.txt"));
  fs::create_directories(w.path(std::string(kNewest) + ".partial-1-0"));
  std::ofstream(w.path(std::string(kNewest) + ".partial-1-0/stale.safetensors")) << "stale";
  w.train();
  EXPECT_FALSE(w.exists(std::string(kNewest) + ".partial-1-0"));
  EXPECT_FALSE(w.exists(std::string(kNewest) + "/stale.safetensors"));
}

TEST(DamagedCheckpoints, ADamagedRunFileIsACheckpointError) {
  Workplace w;
  w.train();
  fs::resize_file(w.path(std::string(kNewest) + "/run.toml"), 0);
  w.expect({{"train", "run.toml", "--resume", kNewest},
            4,
            {"step-00000004/run.toml: has 0 bytes; expected "}});
  // Nor if a user has edited both the file and its checksum.
  const std::string checkpoint = w.path(kOlder).string();
  const io::FileManifest manifest = io::read_manifest(checkpoint);
  std::vector<io::FileDigest> files = manifest.files;
  for (io::FileDigest& file : files)
    if (file.name == "run.toml") file = io::write_durably(checkpoint + "/run.toml", "");
  io::write_manifest(checkpoint, files, [&](JsonWriter& json) {
    for (const auto& [key, value] : manifest.info().members()) json.key(key).value(value);
  });
  w.expect({{"train", "run.toml", "--resume", kOlder}, 4, {"run.toml", "data.train"}});
}

TEST(WriteFaults, ALogThatIsADirectoryIsACheckpointError) {
  Workplace w;
  fs::create_directories(w.path("out/log.txt"));
  w.expect({{"train", "run.toml"}, 4, {"out/log.txt: must be a regular file, got a directory"}});
}

TEST(RunDirectory, ARefusedRunDoesNotChangeIt) {
  Workplace w;
  w.train();
  std::vector<std::string> before, after;
  for (const auto& entry : fs::directory_iterator(w.path("out"))) before.push_back(entry.path());
  const std::string config = w.read("out/config.toml"), log = w.read("out/log.txt");
  EXPECT_EQ(w.lamina({"train", "run.toml", "--set", "optimizer.lr=0.5"}).code, 2);
  w.write("text.txt", w.read("text.txt") + "More.\n");
  EXPECT_EQ(w.lamina({"train", "run.toml", "--set", "train.steps=9"}).code, 5);
  for (const auto& entry : fs::directory_iterator(w.path("out"))) after.push_back(entry.path());
  EXPECT_THAT(after, ::testing::UnorderedElementsAreArray(before));
  EXPECT_EQ(w.read("out/config.toml"), config);
  EXPECT_EQ(w.read("out/log.txt"), log);
}

TEST(RunDirectory, MetricsHaveEachStepOnce) {
  Workplace w;
  w.train();
  // The state after a kill: the last checkpoint is missing, and a line is cut.
  fs::remove_all(w.path(kNewest));
  w.write("out/metrics.jsonl", w.read("out/metrics.jsonl") + "{\"step\":5,\"train/lo");
  Finished f = w.lamina({"train", "run.toml", "--quiet"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(steps_in(w, "out/metrics.jsonl"), kOneToFour);
  EXPECT_EQ(steps_in(w, "out/metrics.superseded.jsonl"), (std::vector<std::int64_t>{3, 4}));
}

TEST(RunFaults, TrainingOutlivesTheReaderOfItsLines) {
  const Workplace w;
  const auto train = [&](const std::string& to, const std::string& out) {
    return run_shell(
        "set -o pipefail; " LAMINA_BUILD_DIR "/bin/lamina train run.toml --json --out " + out + to,
        {.environment = {"LAMINA_PIN=0"}, .folder = w.path("")});
  };
  const Finished piped = train(" | true", "piped"), full = train(" > /dev/full", "full");
  for (const Finished& f : {piped, full}) {
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_THAT(f.err, HasSubstr("; training continues without lines of --json"));
  }
  EXPECT_THAT(piped.err, HasSubstr("warning: stdout: its reader has ended"));
  EXPECT_THAT(full.err, HasSubstr("warning: stdout: cannot write output: no space left on device"));
  EXPECT_TRUE(w.exists("piped/checkpoints/step-00000004"));
  EXPECT_TRUE(w.exists("full/checkpoints/step-00000004"));
}

}  // namespace
}  // namespace lamina::testing
