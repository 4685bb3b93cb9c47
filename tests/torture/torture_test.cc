// The driver's own parts: seeds are reproducible, faults arrive, and violations are found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "torture/campaign.h"
#include "torture/child.h"
#include "torture/judge.h"
#include "torture/mutation.h"

namespace lamina::torture {
namespace {

using lamina::testing::Finished;
using lamina::testing::run_process;
using lamina::testing::TempDir;
using ::testing::HasSubstr;

const std::string kJson = R"({"a": ["<s>", 1], "b": {"c": null}})";

TEST(Torture, SameSeedGivesTheSameCase) {
  std::set<std::string> all;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random one("flip", seed), same("flip", seed);
    const std::string mutated = mutate_json(one, kJson);
    EXPECT_EQ(mutated, mutate_json(same, kJson));
    all.insert(mutated);
  }
  EXPECT_GT(all.size(), 100u);
}

TEST(Torture, JsonMutationsCutListsShortAndExchangeKinds) {
  std::set<std::string> all;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Random random("mutate", seed);
    all.insert(mutate_json(random, kJson));
  }
  for (const char* wanted :
       {R"({"a": ["<s>"], "b": {"c": null}})", R"({"a": [], "b": {"c": null}})",
        R"({"b": {"c": null}})", R"({"a": ["<s>", 1], "b": []})"})
    EXPECT_TRUE(all.contains(wanted)) << wanted;
}

Launch shell(const TempDir& folder, const std::string& line) {
  return {.words = {"/bin/bash", "-c", line}, .folder = folder.path()};
}

TEST(Torture, FaultsArriveWhereAndWhenAsked) {
  const TempDir folder;
  folder.write("in.txt", "1\n2\n3\n4\n");
  Launch launch = shell(folder, "dd if=in.txt of=out.txt bs=2");
  launch.fault = {.calls = "write", .path = "out.txt", .first = 3, .action = "ENOSPC"};
  const Ended ended = run(launch);
  EXPECT_EQ(folder.read("out.txt"), "1\n2\n");
  EXPECT_THAT(ended.err, HasSubstr("No space left on device"));
  EXPECT_EQ(ended.num_calls, 3u);
  EXPECT_EQ(ended.num_struck, 1u);
  EXPECT_EQ(ended.struck_call, "write");
  EXPECT_THAT(ended.struck_path, HasSubstr("out.txt"));
}

TEST(Torture, SignalsWrongCodesAndSilenceAreFailures) {
  const TempDir folder;
  EXPECT_THROW(expect_end(run(shell(folder, "kill -SEGV $$")), {0, 4}, ""), Failure);
  EXPECT_THROW(expect_end(run(shell(folder, "echo error: x: y >&2; exit 1")), {0, 4}, ""), Failure);
  EXPECT_THROW(expect_end(run(shell(folder, "exit 4")), {0, 4}, ""), Failure);
  EXPECT_THROW(expect_end(run(shell(folder, "echo internal error: x >&2; exit 4")), {0, 4}, ""),
               Failure);
  EXPECT_NO_THROW(expect_end(run(shell(folder, "echo error: x: y >&2; exit 4")), {0, 4}, ""));
  Launch endless = shell(folder, "sleep 60");
  endless.seconds = 0.05;
  EXPECT_THROW(expect_end(run(endless), {0, 4}, ""), Failure);
}

// Runs the driver on the real program with one added flaw.
Finished torture(const TempDir& folder, const std::string& flaw, const std::string& kind) {
  const std::string program =
      folder.write("build/bin/lamina",
                   "#!/bin/bash\n" + flaw + "\nexec " LAMINA_BUILD_DIR "/bin/lamina \"$@\"\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  std::filesystem::create_directories(folder / "build/lib/lamina");
  std::filesystem::create_directory_symlink(LAMINA_BUILD_DIR "/lib/lamina/plugins",
                                            folder / "build/lib/lamina/plugins");
  return run_process({LAMINA_BUILD_DIR "/bin/lamina_torture", "--program", program, "--only", kind,
                      "--cases", "2", "--minutes", "1"},
                     {.environment = {"TMPDIR=" + folder.path()}});
}

TEST(Torture, DriverFindsACrashAndSaysHowToReplayIt) {
  const TempDir folder;
  const Finished f = torture(folder, "[[ $1 == decode ]] && kill -SEGV $$", "mutate-embeddings");
  EXPECT_EQ(f.code, 1) << f.out << f.err;
  EXPECT_THAT(f.out, HasSubstr("2 tried      2 failed"));
  EXPECT_THAT(f.out, HasSubstr("signal 11"));
  EXPECT_THAT(f.out, HasSubstr("scripts/torture --replay mutate-embeddings:1"));
}

TEST(Torture, DriverFindsAResultThatDiffers) {
  const TempDir folder;
  const Finished f =
      torture(folder, "[[ $* == *checkpoint.keep=3* ]] && set -- \"$@\" --set optimizer.lr=2e-3",
              "file-limit");
  EXPECT_EQ(f.code, 1) << f.out << f.err;
  EXPECT_THAT(f.out, HasSubstr("FOUND file-limit"));
}

TEST(Torture, UnknownKindsAreRefused) {
  const Finished f = run_process({LAMINA_BUILD_DIR "/bin/lamina_torture", "--only", "magic"});
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(f.err, HasSubstr("there is no kind 'magic'"));
}

}  // namespace
}  // namespace lamina::torture
