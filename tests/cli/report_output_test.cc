// Destinations of `lamina report`: files that it overwrites, and files that are not regular.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>

#include "cli/report/report_page.h"
#include "cli/report_run.h"
#include "cli/trained_run.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Report, OverwritesOnlyItsOwnPages) {
  const TempDir folder;
  fs::copy(trained_run(), folder / "run", fs::copy_options::recursive);
  ASSERT_EQ(lamina_program({"report", folder / "run"}).code, 0);
  ASSERT_EQ(lamina_program({"report", folder / "run"}).code, 0);
  const std::string checkpoint = "run/checkpoints/step-00000004/";
  folder.write("notes.html", "<!DOCTYPE html><p>mine</p>");
  for (const std::string& name :
       {std::string("run/metrics.jsonl"), std::string("run/config.toml"), std::string("notes.html"),
        checkpoint + "model.safetensors", checkpoint + "manifest.json", std::string("run/lock")}) {
    const std::string before = folder.read(name);
    const Finished f = lamina_program({"report", folder / "run", "--output", folder / name});
    EXPECT_EQ(f.code, 2) << name;
    EXPECT_THAT(f.err, HasSubstr("error: " + (folder / name) + ": "));
    EXPECT_EQ(folder.read(name), before) << name;
  }
  folder.write("run/empty", "");
  folder.write("empty", "");
  EXPECT_EQ(lamina_program({"report", folder / "run", "-o", folder / "run/empty"}).code, 2);
  EXPECT_EQ(lamina_program({"report", folder / "run", "-o", folder / "empty"}).code, 0);
  const Finished f =
      lamina_program({"report", folder / "run", "-o", folder / (checkpoint + "new.html")});
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(f.err, HasSubstr("would be inside a checkpoint"));
}

TEST(Report, WritesThroughStdoutWithoutAnythingElse) {
  const TempDir folder;
  const Finished f =
      lamina_program({"report", run_of(folder, "a", loss_line(1, 2)), "-o", "/dev/stdout"});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_TRUE(f.out.starts_with(std::string(kReportPageStart)));
  EXPECT_TRUE(f.out.ends_with("</html>\n"));
}

TEST(Report, AReaderThatGoesAwayEndsItQuietlyOnStdoutAlone) {
  const TempDir folder;
  const std::string run = run_of(folder, "a", loss_line(1, 2));
  const auto ended = [&](const std::string& file) {
    return lamina::testing::run_shell(
        fmt::format("cd {} && mkfifo page; {{ head -c 1 page > got & }}; {{ {} report a -o {}; "
                    "echo $? >&2; }} > page; wait",
                    folder.path(), LAMINA_BUILD_DIR "/bin/lamina", file));
  };
  EXPECT_EQ(ended("/dev/stdout").err, "141\n");
  fs::remove(folder / "page");
  EXPECT_THAT(ended("page").err, ::testing::EndsWith("broken pipe\n  check the disk and the file "
                                                     "system\n4\n"));
}

TEST(Report, ADeviceNodeStays) {
  const TempDir folder;
  const std::string node = folder / "node";
  if (::mknod(node.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0 || ::access(node.c_str(), W_OK))
    GTEST_SKIP() << "device nodes cannot be made here";
  const std::string run = run_of(folder, "a", loss_line(1, 2));
  EXPECT_EQ(lamina_program({"report", run, "--output", node}).code, 0);
  EXPECT_TRUE(fs::is_character_file(node));
}

TEST(Report, GivesAFifoThePage) {
  const TempDir folder;
  const std::string run = run_of(folder, "a", loss_line(1, 2));
  const Finished f = lamina::testing::run_shell(fmt::format(
      "cd {} && mkfifo page && {{ cat page > got & }} && {} report a -o page; wait; test -p page",
      folder.path(), LAMINA_BUILD_DIR "/bin/lamina"));
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_TRUE(folder.read("got").ends_with("</html>\n"));
}

}  // namespace
}  // namespace lamina::cli
