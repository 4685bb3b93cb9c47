// Event files of a run: one per session, in the order of their names, completed later if a disk
// refuses.
#include "train/metrics/tensorboard_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "support/event_reader.h"
#include "support/temp_dir.h"

namespace lamina::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::TempDir;

void write_loss(TensorboardFile& file, std::int64_t step) {
  file.write(MetricsRecord(step).add("train/loss", 1.0 / static_cast<double>(step)));
}

std::vector<std::int64_t> steps_shown(const TempDir& run) {
  std::vector<std::int64_t> out;
  const auto curves = testing::curves_of(testing::read_event_files(run / "tensorboard"));
  for (const auto& [step, value] : curves.at("train/loss")) {
    EXPECT_EQ(value, 1.0f / static_cast<float>(step));
    out.push_back(step);
  }
  return out;
}

const std::vector<std::int64_t> kThreeSteps = {1, 2, 3};

TEST(TensorboardFile, Example) {
  TempDir run;
  TensorboardFile file(run.path(), 0);
  for (std::int64_t step : kThreeSteps) write_loss(file, step);
  EXPECT_EQ(steps_shown(run), kThreeSteps);
  const fs::path path = *fs::directory_iterator(run / "tensorboard");
  EXPECT_THAT(path.filename(), MatchesRegex("events\\.out\\.tfevents\\.[0-9]{10}\\..+\\." +
                                            std::to_string(::getpid())));
}

TEST(TensorboardFile, AFileThatWasRemovedBeginsAgain) {
  TempDir run;
  TensorboardFile file(run.path(), 0);
  write_loss(file, 1);
  fs::remove_all(run / "tensorboard");
  file.renew(1);
  for (std::int64_t step : {2, 3}) write_loss(file, step);
  EXPECT_EQ(steps_shown(run), (std::vector<std::int64_t>{2, 3}));
  const auto files = testing::read_event_files(run / "tensorboard");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].at(0).file_version, "brain.Event:2");
  EXPECT_EQ(files[0].at(1).step, 2);
  EXPECT_EQ(files[0].at(1).session_status, 1u);
}

TEST(TensorboardFile, AFileThatWasRemovedBeginsWithItsVersionOnceItCanBeMade) {
  TempDir run;
  TensorboardFile file(run.path(), 0);
  write_loss(file, 1);
  const fs::path path = *fs::directory_iterator(run / "tensorboard");
  fs::remove(path);
  fs::create_directory(path);
  file.renew(1);
  write_loss(file, 2);
  fs::remove(path);
  write_loss(file, 3);
  EXPECT_EQ(steps_shown(run), (std::vector<std::int64_t>{2, 3}));
  const auto files = testing::read_event_files(run / "tensorboard");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].at(0).file_version, "brain.Event:2");
}

// Within one second and one process, so that the names are as similar as possible.
TEST(TensorboardFile, RepeatedStepsReplaceTheStepsOfEarlierFiles) {
  TempDir run;
  for (std::int64_t first : {1, 3, 2}) {
    TensorboardFile file(run.path(), first - 1);
    for (std::int64_t step = first; step <= 3; ++step) write_loss(file, step);
  }
  const auto files = testing::read_event_files(run / "tensorboard");
  ASSERT_EQ(files.size(), 3u);
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i].at(0).file_version, "brain.Event:2");
    EXPECT_EQ(files[i].at(1).session_status, 1u);
    EXPECT_EQ(files[i].at(1).step, (std::vector<std::int64_t>{1, 3, 2})[i]);
  }
  EXPECT_EQ(steps_shown(run), kThreeSteps);
}

// The limit truncates the second event in the middle, like a full disk.
TEST(TensorboardFile, EventsThatCannotBeWrittenComeLater) {
  TempDir run;
  TensorboardFile file(run.path(), 0);
  write_loss(file, 1);
  const fs::path path = *fs::directory_iterator(run / "tensorboard");
  const auto whole = fs::file_size(path);
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{whole + 7, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  write_loss(file, 2);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, before);
  EXPECT_EQ(fs::file_size(path), whole);
  write_loss(file, 3);
  EXPECT_EQ(steps_shown(run), kThreeSteps);
}

TEST(TensorboardFile, AFolderThatCannotBeMadeIsTriedAgain) {
  TempDir run;
  run.write("tensorboard", "in the way");
  ::testing::internal::CaptureStderr();
  TensorboardFile file(run.path(), 0);
  write_loss(file, 1);
  write_loss(file, 2);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said,
              HasSubstr("cannot be written, training continues: not a directory; its events are "
                        "kept in memory"));
  EXPECT_EQ(said.find("warning"), said.rfind("warning")) << said;  // once
  fs::remove(run / "tensorboard");
  write_loss(file, 3);
  EXPECT_EQ(steps_shown(run), kThreeSteps);
}

TEST(TensorboardFile, ARunThatWasMovedIsNotMadeAgain) {
  TempDir dir;
  ::testing::internal::CaptureStderr();
  TensorboardFile file(dir / "run", 0);
  write_loss(file, 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("training continues: no such file or directory"));
  EXPECT_FALSE(fs::exists(dir / "run"));
}

}  // namespace
}  // namespace lamina::train
