// metrics.jsonl: complete lines in order, with each step once.
#include "train/metrics/metrics_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/few_descriptors.h"
#include "support/temp_dir.h"

namespace lamina::train {
namespace {

using testing::FewDescriptors;
using testing::TempDir;

void write_step(MetricsFile& file, std::int64_t step) {
  JsonWriter json;
  json.begin_object().key("step").value(step).end_object();
  file.write(json);
}

TEST(MetricsFile, Example) {
  TempDir run;
  MetricsFile file(run.path(), 0);
  write_step(file, 1);
  write_step(file, 2);
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(MetricsFile, MovesLaterStepsAwayWhenARunResumes) {
  TempDir run;
  run.write("metrics.jsonl", "{\"step\":1}\n{\"note\":0}\n{\"step\":2}\n{\"step\":3}\n");
  MetricsFile file(run.path(), 1);
  write_step(file, 2);
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":1}\n{\"note\":0}\n{\"step\":2}\n");
  EXPECT_EQ(run.read("metrics.superseded.jsonl"), "{\"step\":2}\n{\"step\":3}\n");
}

TEST(MetricsFile, KnowsTheSamplesOfTheStepAfterWhichARunContinues) {
  TempDir run;
  run.write("metrics.jsonl",
            "{\"step\":1}\n{\"step\":1,\"samples\":[]}\n{\"step\":10}\n{\"step\":11}\n"
            "{\"step\":11,\"samples\":[]}\n");
  EXPECT_TRUE(MetricsFile(run.path(), 11).had_samples());
  EXPECT_FALSE(MetricsFile(run.path(), 10).had_samples());
  EXPECT_TRUE(MetricsFile(run.path(), 1).had_samples());
  EXPECT_FALSE(MetricsFile(run.path(), 0).had_samples());
}

TEST(MetricsFile, CutsHalfALineAndCompletesAWholeOne) {
  TempDir run;
  run.write("metrics.jsonl", "{\"step\":1}\n{\"step\":2");
  { MetricsFile file(run.path(), 9); }
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":1}\n");
  run.write("metrics.jsonl", "{\"step\":1}\n{\"step\":2}");
  { MetricsFile file(run.path(), 9); }
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(MetricsFile, AFileThatWasRemovedIsMadeAgain) {
  TempDir run;
  MetricsFile file(run.path(), 0);
  write_step(file, 1);
  file.renew();  // it exists
  write_step(file, 2);
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
  std::filesystem::remove(run / "metrics.jsonl");
  file.renew();
  for (std::int64_t step : {3, 4}) write_step(file, step);
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":3}\n{\"step\":4}\n");
}

TEST(MetricsFile, LinesFollowTheNameOfAFileThatWasReplaced) {
  TempDir run;
  MetricsFile file(run.path(), 0);
  for (std::int64_t step : {1, 2}) write_step(file, step);
  run.write("edited", "{\"step\":2}\n");
  std::filesystem::rename(run / "edited", run / "metrics.jsonl");
  ::testing::internal::CaptureStderr();
  file.renew();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("metrics.jsonl was replaced"),
            std::string::npos);
  for (std::int64_t step : {3, 4}) write_step(file, step);
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n");
}

// As Python's "\n".join() writes it.
TEST(MetricsFile, LinesFollowALineFeedInAFileThatWasReplaced) {
  TempDir run;
  MetricsFile file(run.path(), 0);
  write_step(file, 1);
  run.write("edited", "{\"step\":0}\n{\"step\":1}");
  std::filesystem::rename(run / "edited", run / "metrics.jsonl");
  file.renew();
  write_step(file, 2);
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n");
}

TEST(MetricsFile, LinesWaitUntilAFileThatWasReplacedCanBeOpened) {
  TempDir run;
  MetricsFile file(run.path(), 0);
  write_step(file, 1);
  std::filesystem::rename(run / "metrics.jsonl", run / "old");
  std::filesystem::create_symlink("old", run / "metrics.jsonl");  // is not opened
  file.renew();
  write_step(file, 2);
  run.write("edited", "{\"step\":1}");
  std::filesystem::rename(run / "edited", run / "metrics.jsonl");
  file.renew();
  write_step(file, 3);
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  EXPECT_EQ(run.read("old"), "{\"step\":1}\n");
}

TEST(MetricsFile, LinesWaitForADescriptorOfAFileThatWasReplaced) {
  TempDir run;
  MetricsFile file(run.path(), 0);
  write_step(file, 1);
  run.write("edited", "{\"step\":1}\n");
  std::filesystem::rename(run / "edited", run / "metrics.jsonl");
  {
    const FewDescriptors none(-1);  // not even the one of the file that is closed
    file.renew();
    write_step(file, 2);
  }
  write_step(file, 3);
  file.finish();
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
}

TEST(MetricsFile, LinesWaitWhileAFolderHasTheName) {
  TempDir run;
  MetricsFile file(run.path(), 0);
  write_step(file, 1);
  std::filesystem::rename(run / "metrics.jsonl", run / "old");
  std::filesystem::create_directory(run / "metrics.jsonl");
  file.renew();
  write_step(file, 2);
  std::filesystem::remove(run / "metrics.jsonl");
  write_step(file, 3);
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":2}\n{\"step\":3}\n");
  EXPECT_EQ(run.read("old"), "{\"step\":1}\n");
}

TEST(MetricsFile, AResumeWithoutDescriptorsLosesNoLines) {
  TempDir run;
  const std::string lines = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n";
  run.write("metrics.jsonl", lines);
  {
    const FewDescriptors one(1);
    MetricsFile file(run.path(), 3);
  }
  EXPECT_EQ(run.read("metrics.jsonl"), lines);
  {
    const FewDescriptors one(1);
    EXPECT_ERROR_SAYS(MetricsFile(run.path(), 1), ExitCode::checkpoint,
                      "metrics.superseded.jsonl: cannot be opened");
  }
  EXPECT_EQ(run.read("metrics.jsonl"), lines);
}

TEST(MetricsFile, LinesAreReadAcrossTheEndsOfBlocks) {
  TempDir run;
  std::string first, later;
  for (int i = 0; i < 20'000; ++i) first += "{\"step\":1}\n";  // 220,000 bytes
  for (int i = 0; i < 20'000; ++i) later += "{\"step\":2}\n";
  run.write("metrics.jsonl", first + later);
  { MetricsFile file(run.path(), 1); }
  EXPECT_TRUE(run.read("metrics.jsonl") == first);
  EXPECT_TRUE(run.read("metrics.superseded.jsonl") == later);
}

// Limits files to 17 bytes, which truncates the second line in the middle, like a full disk.
class FullDisk {
 public:
  FullDisk() : before_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small{17, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    ::signal(SIGXFSZ, before_);
  }

 private:
  sighandler_t before_;
  rlimit limit_{};
};

TEST(WriteFaults, LinesOfMetricsThatCannotBeWrittenAreWrittenLater) {
  TempDir run;
  MetricsFile file(run.path(), 0);
  {
    const FullDisk disk;
    for (std::int64_t step : {1, 2, 3}) write_step(file, step);
  }
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":1}\n");
  write_step(file, 4);
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n");
}

TEST(MetricsFile, SupersededLinesThatCannotBeWrittenComeOnceLater) {
  TempDir run;
  run.write("metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  {
    const FullDisk disk;
    EXPECT_ERROR_SAYS(MetricsFile(run.path(), 1), ExitCode::checkpoint,
                      "metrics.superseded.jsonl: cannot be written");
  }
  { MetricsFile file(run.path(), 1); }
  EXPECT_EQ(run.read("metrics.jsonl"), "{\"step\":1}\n");
  EXPECT_EQ(run.read("metrics.superseded.jsonl"), "{\"step\":2}\n{\"step\":3}\n");
}

TEST(MetricsFile, PathsThatAreNotFilesAreRefused) {
  TempDir run;
  std::filesystem::create_directory(run / "metrics.jsonl");
  EXPECT_ERROR_SAYS(MetricsFile(run.path(), 0), ExitCode::checkpoint, "metrics.jsonl: ");
}

}  // namespace
}  // namespace lamina::train
