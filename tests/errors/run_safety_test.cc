// Run directories that another process moves, removes or creates, before and during a run.
#include <fmt/format.h>
#include <sys/stat.h>

#include "errors/workplace.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// Trains in out, in the background, runs the lines after its first complete checkpoint (an
// incomplete one is called step-N.partial-*), and waits for the end of training.
Finished beside_run(const Workplace& w, const std::string& lines) {
  // A function in the background is a subshell, which would get the signals instead of the program.
  const std::string train = "\"$lamina\" train run.toml --quiet --set checkpoint.every_steps=1";
  return run_shell(
      "train() { " + train + " \"$@\"; }\n" + train +
          " --set train.steps=1000000 --set checkpoint.keep=1 & first=$!\n"
          "trap 'kill -KILL $first 2>/dev/null' EXIT\n"
          "until ls out/checkpoints | grep -qx 'step-[0-9]*'; do sleep 0.02; done 2>/dev/null\n" +
          lines + "\nwait $first; echo first $? >&2",
      {.environment = {"LAMINA_PIN=0", "lamina=" LAMINA_BUILD_DIR "/bin/lamina"},
       .folder = w.path("").string()});
}

TEST(MovedRun, EndsBeforeItWritesIntoTheNextRunOfThatName) {
  const Workplace w;
  const Finished f =
      beside_run(w, "mv out old; train --set checkpoint.keep=9 >&2; echo second $? >&2; sleep 0.3");
  EXPECT_THAT(f.err, HasSubstr("second 0"));
  EXPECT_THAT(f.err, HasSubstr("out: was moved or replaced while this process used it"));
  EXPECT_THAT(f.err, HasSubstr("it is now at " + fs::canonical(w.path("old")).string() + ";"));
  EXPECT_THAT(f.err, HasSubstr("first 4"));
  for (int step = 1; step <= 4; ++step)
    EXPECT_TRUE(w.exists(fmt::format("out/checkpoints/step-0000000{}/manifest.json", step)));
  EXPECT_EQ(w.lamina({"ckpt", "verify", "out"}).code, 0);
  EXPECT_EQ(w.lamina({"ckpt", "verify", "old"}).code, 0);
}

TEST(MovedRun, MakesNoDirectoryAnew) {
  const Workplace w;
  const Finished f = beside_run(w, "mv out old");
  EXPECT_THAT(f.err, HasSubstr("out: was moved or replaced while this process used it"));
  EXPECT_THAT(f.err, HasSubstr("move it back and run the same command again to resume"));
  EXPECT_THAT(f.err, HasSubstr("first 4"));
  EXPECT_FALSE(w.exists("out"));
}

TEST(MovedRun, OneThatIsRemovedIsMadeAgain) {
  const Workplace w;
  std::string run = w.read("run.toml");
  w.write("run.toml", run.replace(run.find("[train]"), 7, "[train]\ntensorboard = true"));
  const Finished f = beside_run(
      w,
      "kill -STOP $first; rm -rf out; kill -CONT $first\n"
      "until ls out/checkpoints | grep -qx 'step-[0-9]*'; do sleep 0.02; done 2>/dev/null\n"
      "for i in $(seq 500); do test -s out/metrics.jsonl && break; sleep 0.02; done\n"
      "kill -TERM $first");
  EXPECT_THAT(f.err, HasSubstr("out was removed while this run trains in it"));
  EXPECT_THAT(f.err, HasSubstr("first 75"));
  EXPECT_TRUE(w.exists("out/config.toml"));
  EXPECT_TRUE(w.exists("out/lock"));
  EXPECT_THAT(w.read("out/metrics.jsonl"), HasSubstr("\"train/loss\""));
  EXPECT_THAT(w.read("out/log.txt"), HasSubstr("out was removed while this run trains in it"));
  EXPECT_FALSE(fs::is_empty(w.path("out/tensorboard")));
  EXPECT_EQ(w.lamina({"ckpt", "verify", "out"}).code, 0);
}

TEST(PlantedFiles, LinksAreNotWrittenThrough) {
  for (const char* name : {"lock", "log.txt", "metrics.jsonl"}) {
    SCOPED_TRACE(name);
    const Workplace w;
    fs::create_directories(w.path("out"));
    w.write("theirs", "their words\n");
    for (const char* target : {"theirs", "nothing yet"}) {
      fs::remove(w.path("out") / name);
      fs::create_symlink(w.path(target), w.path("out") / name);
      w.expect({{"train", "run.toml"},
                4,
                {std::string("out/") + name + ": must be a regular file, got a symbolic link",
                 "remove it, or choose another --out"}});
    }
    EXPECT_EQ(w.read("theirs"), "their words\n");
    EXPECT_FALSE(w.exists("nothing yet"));
  }
}

TEST(PlantedFiles, AFifoIsRefused) {
  for (const char* name : {"lock", "log.txt", "metrics.jsonl"}) {
    const Workplace w;
    fs::create_directories(w.path("out"));
    ASSERT_EQ(::mkfifo((w.path("out") / name).c_str(), 0666), 0);
    w.expect({{"train", "run.toml"},
              4,
              {std::string("out/") + name + ": must be a regular file, got a FIFO"}});
  }
}

TEST(PlantedFiles, ALinkInPlaceOfAPartialFileIsNotWrittenThrough) {
  const Workplace w;
  fs::create_directories(w.path("out"));
  w.write("theirs", "their words\n");
  fs::create_symlink(w.path("theirs"), w.path("out/config.toml.partial"));
  w.train();
  EXPECT_EQ(w.read("theirs"), "their words\n");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(w.path("out/config.toml"))));
}

TEST(OpenFiles, TooFewAreNamedAndLeaveNoFolder) {
  const Workplace w;
  fs::create_directories(w.path("tmp"));
  w.write("text.txt", std::string(2 << 20, 'x'));  // large enough for a store
  int named = 0;
  for (int limit = 4; limit < 16; ++limit) {
    const Finished f =
        run_shell(fmt::format("ulimit -n {}; exec \"$lamina\" train run.toml --quiet", limit),
                  {.environment = {"LAMINA_PIN=0", "lamina=" LAMINA_BUILD_DIR "/bin/lamina",
                                   "TMPDIR=" + w.path("tmp").string()},
                   .folder = w.path("").string()});
    // Enough memory; or too little for the shell's exec, or for the program's libraries.
    if (f.code == 0 || f.err.empty() || f.code == 127) continue;
    EXPECT_THAT(f.err, HasSubstr("oo many open files")) << limit;
    // The codes for the run file, a model or disk, the text, and a plugin.
    EXPECT_THAT(f.code, ::testing::AnyOf(2, 4, 5, 7)) << limit << f.err;
    EXPECT_TRUE(fs::is_empty(w.path("tmp"))) << limit;
    ++named;
  }
  EXPECT_GT(named, 0);
}

}  // namespace
}  // namespace lamina::testing
