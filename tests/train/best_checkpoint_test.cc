// The best of several validated checkpoints.
#include "train/checkpoint/best_checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "io/manifest.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/run_directory.h"

namespace lamina::train {
namespace {

using testing::TempDir;

// Writes the manifest of a checkpoint without files; 0 rows: as earlier versions did.
void write_validated(const TempDir& run, std::int64_t step, double loss, std::uint64_t num_rows) {
  const std::string path = checkpoint_path(run.path(), step);
  std::filesystem::create_directories(path);
  io::write_manifest(path, {}, [&](JsonWriter& json) {
    json.key("step").value(step).key(kValidationLossKey).value(loss);
    if (num_rows > 0) json.key(kValidationRowsKey).value(num_rows);
  });
}

TEST(BestCheckpoint, Example) {
  const TempDir run;
  EXPECT_FALSE(best_checkpoint(run.path()));
  write_validated(run, 1, 5.5, 81);
  write_validated(run, 2, 5.25, 81);
  write_validated(run, 3, 5.25, 81);
  EXPECT_EQ(best_checkpoint(run.path())->path, checkpoint_path(run.path(), 2));
}

TEST(BestCheckpoint, LossesOfOtherRowsAreNotCompared) {
  const TempDir run;
  write_validated(run, 1, 5.0, 81);
  write_validated(run, 2, 5.5, 4);
  write_validated(run, 3, 5.25, 4);
  EXPECT_EQ(best_checkpoint(run.path())->loss, 5.25);
  EXPECT_EQ(best_checkpoint(run.path(), 81)->loss, 5.0);
  EXPECT_FALSE(best_checkpoint(run.path(), 8));
}

TEST(BestCheckpoint, AManifestWithoutTheRowsIsComparedWithAll) {
  const TempDir run;
  write_validated(run, 1, 5.0, 0);
  write_validated(run, 2, 5.5, 4);
  EXPECT_EQ(best_checkpoint(run.path())->loss, 5.0);
}

TEST(BestCheckpoint, DamagedOnesAreSkippedAndUnreadOnesAreNot) {
  const TempDir run;
  write_validated(run, 1, 5.0, 4);
  write_validated(run, 2, 5.5, 4);
  const std::string name = "checkpoints/step-00000001/manifest.json";
  run.write(name, "");
  EXPECT_EQ(best_checkpoint(run.path())->loss, 5.5);
  run.write(name, R"({"format": "lamina-manifest", "version": 99, "manifest_xxh3_128": ""})");
  EXPECT_ERROR_SAYS(best_checkpoint(run.path()), ExitCode::checkpoint, "newer lamina");
  std::vector<UnreadCheckpoint> unread;
  EXPECT_EQ(best_checkpoint(run.path(), {}, &unread)->loss, 5.5);
  ASSERT_EQ(unread.size(), 1u);
  EXPECT_EQ(unread[0].path, checkpoint_path(run.path(), 1));
  EXPECT_NE(unread[0].problem.find("newer lamina"), std::string::npos);
}

// Root may search every directory, so the test process changes to another user.
TEST(BestCheckpoint, OneInADirectoryThatCannotBeSearchedIsUnread) {
  namespace fs = std::filesystem;
  const TempDir run;
  write_validated(run, 1, 5.0, 4);
  write_validated(run, 2, 5.5, 4);
  for (const std::string& folder : {run.path(), checkpoints_directory(run.path())})
    fs::permissions(folder, fs::perms::all);
  fs::permissions(checkpoint_path(run.path(), 1), fs::perms::none);
  const auto as_nobody = [&] {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    std::vector<UnreadCheckpoint> unread;
    const auto best = best_checkpoint(run.path(), {}, &unread);
    if (!best || best->loss != 5.5 || unread.size() != 1) ::_exit(2);
    if (!list_incomplete(run.path()).empty()) ::_exit(3);
    try {
      best_checkpoint(run.path());
      ::_exit(0);
    } catch (const Error& e) {
      const std::string_view what = e.what();
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, what.data(), what.size());
      ::_exit(static_cast<int>(e.code()));
    }
  };
  EXPECT_EXIT(as_nobody(), ::testing::ExitedWithCode(4),
              "step-00000001/manifest.json: .*: permission denied");
  fs::permissions(checkpoint_path(run.path(), 1), fs::perms::all);
}

// It may be the best one.
TEST(BestCheckpoint, OneThatCannotBeReadIsKeptAlone) {
  const TempDir run;
  for (std::int64_t step : {1, 2, 3, 4, 5}) write_validated(run, step, step == 3 ? 5.0 : 5.5, 4);
  run.write("checkpoints/step-00000002/manifest.json",
            R"({"format": "lamina-manifest", "version": 99, "manifest_xxh3_128": ""})");
  const std::vector<std::string> problems = remove_old_checkpoints(run.path(), 1, true);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("step-00000002/manifest.json"), std::string::npos);
  std::vector<std::int64_t> steps;
  for (const CheckpointEntry& entry : list_checkpoints(run.path())) steps.push_back(entry.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{2, 3, 5}));
  EXPECT_TRUE(remove_old_checkpoints(run.path(), 1, false).empty());
}

}  // namespace
}  // namespace lamina::train
