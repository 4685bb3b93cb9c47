// Without enough memory the program reports it and ends with code 7, at any point; never by a
// signal.
#include <gtest/gtest.h>

#include "support/paths.h"
#include "support/sanitizers.h"
#include "trained_run.h"

namespace lamina::cli {
namespace {

using testing::Finished;

// Runs `line` ($L is the program) with less and less address space: from plenty of it down to a
// size at which the loader cannot start the program.
void sweep(const std::string& line, int from_mb, int to_mb) {
  testing::TempDir folder;
  folder.write("run.toml", tiny_run_file("out"));
  int done = 0, refused = 0;
  for (int mb = from_mb; mb >= to_mb; --mb) {
    const std::string limited = "L=" LAMINA_BUILD_DIR "/bin/lamina; R=" + trained_run() +
                                "; rm -rf out; ulimit -v " + std::to_string(mb * 1000) + "; " +
                                line;
    const Finished f =
        testing::run_shell(limited, {.environment = {"LAMINA_PIN=0"}, .folder = folder.path()});
    if (f.code == 127) break;  // the loader: the libraries do not fit
    EXPECT_TRUE(f.code == 0 || f.code == 7) << line << " with " << mb << " MB: " << f.code << "\n"
                                            << f.err;
    if (f.code == 7) {
      EXPECT_NE(f.err.find("out of memory"), f.err.npos) << mb << " MB: " << f.err;
    }
    ++(f.code == 0 ? done : refused);
  }
  EXPECT_GT(done, 0) << line;
  EXPECT_GT(refused, 0) << line;
}

TEST(MemoryFaults, TrainingReportsThatMemoryIsOut) {
  LAMINA_SKIP_IF_SANITIZED("its shadow memory needs more addresses than any limit leaves");
  sweep("$L train run.toml -q -t 2", 120, 8);
}

TEST(MemoryFaults, DecodingReportsThatMemoryIsOut) {
  LAMINA_SKIP_IF_SANITIZED("its shadow memory needs more addresses than any limit leaves");
  sweep("$L decode -m $R --ids 1,2,3 -n 2 -t 2", 60, 8);
}

// The regular expression engine allocates memory to compile and to match patterns.
TEST(MemoryFaults, TokenizingReportsThatMemoryIsOut) {
  LAMINA_SKIP_IF_SANITIZED("its shadow memory needs more addresses than any limit leaves");
  sweep("$L tokenize -m " LAMINA_SOURCE_DIR "/tests/golden/tokenizers/llama3 -p hello", 60, 8);
}

TEST(Memory, DataThatDoNotFitAreNamed) {
  LAMINA_SKIP_IF_SANITIZED("its shadow memory needs more addresses than any limit leaves");
  const testing::TempDir folder;
  folder.write("run.toml", tiny_run_file("out"));
  folder.write("large.txt", std::string(std::size_t{160} << 20, 'a'));
  const Finished f = testing::run_shell(
      "ulimit -v 700000; " LAMINA_BUILD_DIR
      "/bin/lamina train run.toml -q -t 2 --set data.store=none --set data.train=large.txt",
      {.environment = {"LAMINA_PIN=0"}, .folder = folder.path()});
  EXPECT_EQ(f.code, 7) << f.err;
  EXPECT_NE(
      f.err.find("large.txt: out of memory while it was read\n"
                 "  with data.store = \"none\" all tokens are in memory, 4 bytes each: remove "
                 "it\n"),
      f.err.npos)
      << f.err;
}

// The advice names the options of the command.
TEST(Memory, AdviceNamesWhatTheCommandCanChange) {
  LAMINA_SKIP_IF_SANITIZED("its shadow memory needs more addresses than any limit leaves");
  const testing::TempDir folder;
  folder.write("run.toml", tiny_run_file("out"));
  const std::string tebibytes = "2147483647";
  const char* const context =
      "use a shorter context (--ctx-size), fewer beams (--beams) or a smaller model";
  for (const auto& [line, advice] : {
           std::pair{"decode -m $R --ids 1 -n 2 --ctx-size " + tebibytes, context},
           // The prompt and -n together exceed the largest context.
           std::pair{"decode -m " LAMINA_SOURCE_DIR
                     "/tests/golden/hf/llama_dynamic --ids 1,2,3 -n " +
                         tebibytes,
                     context},
           std::pair{std::string("train run.toml --set train.batch_size=10000000 --set "
                                 "train.microbatch_size=10000000"),
                     "use smaller microbatches (train.microbatch_size, which --fit finds) or a "
                     "smaller model"},
       }) {
    const Finished f = testing::run_shell(
        "ulimit -v 4000000; R=" + trained_run() + "; " LAMINA_BUILD_DIR "/bin/lamina " + line,
        {.environment = {"LAMINA_PIN=0"}, .folder = folder.path()});
    EXPECT_EQ(f.code, 7) << line << '\n' << f.err;
    EXPECT_NE(f.err.find(std::string("out of memory asking for")), f.err.npos) << f.err;
    EXPECT_NE(f.err.find(std::string("\n  ") + advice + "\n"), f.err.npos) << f.err;
  }
}

TEST(MemoryFaults, ASmallStackIsNamed) {
  testing::TempDir folder;
  folder.write("run.toml", tiny_run_file("out"));
  for (const char* kib : {"8192", "1024", "256"}) {
    const Finished f =
        testing::run_shell("ulimit -s " + std::string(kib) +
                               "; " LAMINA_BUILD_DIR "/bin/lamina train run.toml -q -t 2",
                           {.environment = {"LAMINA_PIN=0"}, .folder = folder.path()});
    EXPECT_EQ(f.code, 0) << kib << " KiB\n" << f.err;
  }
  for (const char* kib : {"192", "128", "100", "64"}) {
    // Only root may raise the limit again.
    const Finished f = testing::run_shell(
        "ulimit -s " + std::string(kib) +
            "; [[ $UID == 0 ]] && as=(setpriv --inh-caps=-all --bounding-set=-all "
            "--reuid 65534 --regid 65534 --clear-groups); \"${as[@]}\" " LAMINA_BUILD_DIR
            "/bin/lamina --version",
        {});
    EXPECT_EQ(f.code, 7) << kib << " KiB\n" << f.err;
    EXPECT_EQ(f.err, "error: stack: at most " + std::string(kib) +
                         " KiB are allowed; at least 256 KiB are needed\n"
                         "  raise the limit: `ulimit -s 8192`\n");
  }
}

}  // namespace
}  // namespace lamina::cli
