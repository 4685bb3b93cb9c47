// Every exit code of docs/exit_codes.md, from a command line that ends with it.
#include <gtest/gtest.h>

#include <set>

#include "cli/shell/exit_codes.h"
#include "support/paths.h"
#include "support/sanitizers.h"
#include "trained_run.h"

namespace lamina::cli {
namespace {

struct Row {
  int code;
  std::string line;  // of bash, in a folder with run.toml; $L is the program, $R a trained run
};

// Waits for a line in `file`, then sends the signal to the job and ends with the job's code.
std::string signalled(const std::string& command, const std::string& file,
                      const std::string& signal) {
  // bash makes background jobs ignore SIGINT; this test needs the default.
  return "env --default-signal=INT " + command + " & for i in {1..500}; do [[ -s " + file +
         " ]] && break; sleep 0.02; done; kill -" + signal + " $!; wait $!";
}

const std::string kDecode =
    "$L decode -m $R --ids 1,2 -n 100000 --ctx-size 100100 --ignore-eos --no-stats >text";

const std::vector<Row>& rows() {
  static const std::vector<Row> rows = {
      {0, "$L --version"},
      {2, "$L train nosuch.toml"},
      {2, "$L train run.toml --set train.stepps=3"},
      {3, "$L train run.toml --set optimizer.lr=1e30 --set train.clip_norm=0"},
      {4, "mkdir empty; $L decode -m empty -p x"},
      {5, "$L train run.toml --set 'data.train=[\"nosuch.txt\"]'"},
      {7,
       "ulimit -v 4000000; $L train run.toml --set train.batch_size=10000000"
       " --set train.microbatch_size=10000000"},
      {2, "$L decode -m $R --ids 1,2 --device cuda:99"},
      {2, "$L decode -m $R --ids 1,2 --device tpu"},
      {8, "$L --plugin nosuch.lamina.so plugin list"},
      {2, "$L --plugin '' plugin list"},
      {75, signalled("$L train run.toml --set train.steps=1000000", "out/metrics.jsonl", "TERM")},
      {75, signalled("$L train run.toml --set train.steps=1000000", "out/metrics.jsonl", "HUP")},
      {129, signalled(kDecode, "text", "HUP")},
      {130, signalled(kDecode, "text", "INT")},
      {143, signalled(kDecode, "text", "TERM")},
      // bash makes background jobs ignore SIGINT; a process can still send it.
      {130,
       "sleep 9 | $L tokenize -m $R -f - & for i in {1..80}; do kill -INT $! || break; "
       "sleep 0.1; done 2>/dev/null; wait $!"},
      {141, "set -o pipefail; { sleep 0.2; $L --help; } | true"},
  };
  return rows;
}

TEST(ExitCodes, MatchThePage) {
  for (const Row& row : rows()) {
    // The shadow memory of the sanitizer needs more addresses than the limit allows.
    if (testing::kSanitized && row.line.starts_with("ulimit -v")) continue;
    testing::TempDir folder;
    folder.write("run.toml", tiny_run_file("out"));
    const testing::Finished f = testing::run_shell(
        "L=" LAMINA_BUILD_DIR "/bin/lamina; R=" + trained_run() + "; " + row.line,
        {.environment = {"LAMINA_PIN=0"}, .folder = folder.path()});
    EXPECT_EQ(f.code, row.code) << row.line << "\n" << f.err;
  }
}

// Two codes have no command here: 1 is for unexpected errors, 6 for runs of several processes.
TEST(ExitCodes, AllHaveACommandThatEndsWithThem) {
  std::set<int> shown = {1, 6};
  for (const Row& row : rows()) shown.insert(row.code);
  for (const ExitCodeMeaning& meaning : exit_codes())
    EXPECT_TRUE(shown.contains(static_cast<int>(meaning.code))) << static_cast<int>(meaning.code);
  EXPECT_EQ(shown.size(), exit_codes().size());
}

}  // namespace
}  // namespace lamina::cli
