// Durable files, atomic directories, manifests: readers never find a partial file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "io/directories.h"
#include "io/directory_commit.h"
#include "io/durable_file.h"
#include "io/manifest.h"
#include "io/safetensors_writer.h"
#include "io/weight_files.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::io {
namespace {

using testing::TempDir;
namespace fs = std::filesystem;

int num_entries(const std::string& directory) {
  return static_cast<int>(std::distance(fs::directory_iterator(directory), {}));
}

TEST(DurableFile, Example) {
  TempDir dir;
  DurableFile file(dir / "notes.txt");
  file.write("hello");
  EXPECT_FALSE(fs::exists(dir / "notes.txt"));
  const FileDigest digest = file.commit();
  EXPECT_EQ(dir.read("notes.txt"), "hello");
  EXPECT_EQ(digest.name, "notes.txt");
  EXPECT_EQ(digest.num_bytes, 5u);
  EXPECT_EQ(digest.xxh3_128, "b5e9c1ad071b3e7fc779cfaa5e523818");  // of XXH3-128
}

TEST(DurableFile, LeavesNothingWithoutCommit) {
  TempDir dir;
  dir.write("a", "before");
  { DurableFile(dir / "a").write("half"); }
  EXPECT_EQ(dir.read("a"), "before");
  EXPECT_EQ(num_entries(dir.path()), 1);
}

TEST(DurableFile, HasOneWriterAtATime) {
  const TempDir dir;
  {
    DurableFile first(dir / "a");
    first.write("first");
    EXPECT_ERROR_SAYS(DurableFile(dir / "a"), ExitCode::checkpoint,
                      "a: is being written by another process");
    first.commit();
  }
  EXPECT_EQ(dir.read("a"), "first");
  dir.write("a.partial", "left by a process that was killed");
  DurableFile second(dir / "a");
  second.write("second");
  second.commit();
  EXPECT_EQ(dir.read("a"), "second");
}

TEST(DurableFile, APartialFileOfAnotherWriterGetsNoName) {
  const TempDir dir;
  DurableFile file(dir / "a");
  file.write("whole");
  std::filesystem::remove(dir / "a.partial");
  dir.write("a.partial", "hal");
  EXPECT_ERROR_SAYS(file.commit(), ExitCode::checkpoint, "is being written by another process");
  EXPECT_FALSE(std::filesystem::exists(dir / "a"));
}

TEST(DurableFile, KeepsAMappedFileIntactWhenReplacingIt) {
  TempDir dir;
  const MappedFile before(dir.write("a", "before"));
  write_durably(dir / "a", "after!");
  EXPECT_EQ(static_cast<char>(before.bytes()[0]), 'b');
  EXPECT_EQ(dir.read("a"), "after!");
}

TEST(DurableFile, ReportsTheFailedSystemCall) {
  TempDir dir;
  EXPECT_ERROR_SAYS(DurableFile(dir / "no/such/dir/file"), ExitCode::checkpoint,
                    "file: cannot be created: no such file or directory\n"
                    "  check that the directory exists");
  EXPECT_ERROR_SAYS(DurableFile(dir / "huge", std::uint64_t{1} << 60), ExitCode::checkpoint,
                    "needs 1152921504606846976 bytes, but the disk has only ");
  try {
    DurableFile in_proc("/proc/lamina-test", 21);
    ADD_FAILURE() << "/proc has a new file";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("the disk"), std::string::npos) << error.what();
  }
}

TEST(DurableFile, ACopyNamesTheFileThatFails) {
  TempDir dir;
  dir.write("a", "text");
  EXPECT_EQ(copy_durably(dir / "a", dir / "b").num_bytes, 4u);
  EXPECT_EQ(dir.read("b"), "text");
  EXPECT_ERROR_SAYS(copy_durably(dir / "none", dir / "c"), ExitCode::checkpoint,
                    dir / "none" + ": ")
  EXPECT_ERROR_SAYS(copy_durably(dir / "a", dir / "none/c"), ExitCode::checkpoint, dir / "none/c")
  EXPECT_EQ(num_entries(dir.path()), 2);
}

TEST(DurableFile, SyncsFilesThatOthersHaveWritten) {
  TempDir dir;
  EXPECT_NO_THROW(sync_file(dir.write("a", "x")));
  EXPECT_ERROR_SAYS(sync_file(dir / "b"), ExitCode::checkpoint,
                    "b: cannot be opened: no such file or directory");
}

TEST(DurableFile, AWriteThatFailsInTheMiddleLeavesTheFormerFile) {
  TempDir dir;
  dir.write("a", "before");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100000, 100000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_durably(dir / "a", std::string(200000, 'x'));
    } catch (const DeviceError& e) {
      const std::string text = e.what();
      ::_exit(text.find("after 100000 bytes: file too large") != text.npos ? 7 : 8);
    }
    ::_exit(9);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(dir.read("a"), "before");
  EXPECT_EQ(num_entries(dir.path()), 1);
}

TEST(DirectoryCommit, Example) {
  TempDir dir;
  DirectoryCommit step(dir / "ckpt/step-1");
  write_durably(step.path() + "/a", "x");
  EXPECT_FALSE(fs::exists(dir / "ckpt/step-1"));
  step.commit();
  EXPECT_EQ(dir.read("ckpt/step-1/a"), "x");
  EXPECT_EQ(num_entries(dir / "ckpt"), 1);
}

TEST(DirectoryCommit, CreatesOneDirectoryAboveIfAsked) {
  TempDir dir;
  DirectoryCommit step(dir / "ckpt/step-1", DirectoryCommit::Above::one);
  EXPECT_TRUE(fs::exists(dir / "ckpt"));
  EXPECT_ERROR_SAYS(DirectoryCommit(dir / "run/ckpt/step-1", DirectoryCommit::Above::one),
                    ExitCode::checkpoint, "run/ckpt: cannot be created: no such file or directory");
  EXPECT_FALSE(fs::exists(dir / "run"));
}

TEST(DirectoryCommit, DotsAndSlashesAtTheEndAreNoPartOfTheName) {
  for (const char* end : {"", "/", "/.", "//", "/./", "/././/"}) {
    TempDir dir;
    DirectoryCommit step(dir / "a/step-1" + end);
    step.commit();
    EXPECT_TRUE(fs::is_directory(dir / "a/step-1")) << end;
    EXPECT_TRUE(fs::is_empty(dir / "a/step-1")) << end;
    EXPECT_EQ(num_entries(dir / "a"), 1) << end;
  }
  EXPECT_EQ(trimmed_path("/."), "/");
  EXPECT_EQ(trimmed_path("."), ".");
  EXPECT_EQ(trimmed_path("a/.."), "a/..");
  EXPECT_EQ(trimmed_path("a."), "a.");
}

TEST(DirectoryCommit, NeverReplacesADirectory) {
  TempDir dir;
  fs::create_directory(dir / "step-1");
  DirectoryCommit step(dir / "step-1");
  EXPECT_ERROR_SAYS(step.commit(), ExitCode::checkpoint,
                    "step-1: cannot be renamed to its final "
                    "name: file exists");
}

TEST(DirectoryCommit, TwoOfOneNameDoNotShareADirectory) {
  TempDir dir;
  DirectoryCommit a(dir / "step-1"), b(dir / "step-1");
  EXPECT_NE(a.path(), b.path());
}

TEST(DirectoryCommit, LeftoversOfAKilledCommandAreRemovedByTheNext) {
  TempDir dir;
  dir.write("model.partial-0123456789abcdef/a", "x");
  dir.write("model.partial-fedcba9876543210/sub/a", "x");
  dir.write("other.partial-0123456789abcdef/a", "x");  // another target's
  dir.write("model.partial-mine/a", "x");              // the user's
  DirectoryCommit running(dir / "model");
  DirectoryCommit next(dir / "model/");
  EXPECT_TRUE(fs::exists(running.path()));
  EXPECT_TRUE(fs::exists(next.path()));
  EXPECT_TRUE(fs::exists(dir / "other.partial-0123456789abcdef"));
  EXPECT_TRUE(fs::exists(dir / "model.partial-mine"));
  EXPECT_EQ(num_entries(dir.path()), 4);
}

TEST(DirectoryCommit, AnotherProcessThatIsStillWritingKeepsItsDirectory) {
  TempDir dir;
  int ready[2], go[2];
  ASSERT_EQ(::pipe(ready) + ::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    DirectoryCommit commit(dir / "model");
    char byte = 'x';
    static_cast<void>(::write(ready[1], &byte, 1));
    static_cast<void>(::read(go[0], &byte, 1));
    ::_exit(0);  // like a kill: without cleanup
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  { DirectoryCommit meanwhile(dir / "model"); }
  EXPECT_EQ(num_entries(dir.path()), 1);
  ASSERT_EQ(::write(go[1], &byte, 1), 1);
  ::waitpid(child, nullptr, 0);
  { DirectoryCommit afterwards(dir / "model"); }
  EXPECT_EQ(num_entries(dir.path()), 0);
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);
}

TEST(DirectoryCommit, LeftoversOfOtherProcessesAreRemoved) {
  TempDir dir;
  dir.write("step-1.partial-1-0/a", "x");
  dir.write("step-2.partial-0123456789abcdef/a", "x");
  dir.write("step-3.deleting/a", "x");
  dir.write("step-4/a", "x");
  remove_leftovers(dir.path());
  EXPECT_EQ(num_entries(dir.path()), 1);
  EXPECT_TRUE(fs::exists(dir / "step-4"));
  remove_directory(dir / "step-4");
  EXPECT_EQ(num_entries(dir.path()), 0);
}

// A directory with two tensors, a text file and a manifest.
void write_checkpoint(const std::string& path) {
  static const std::vector<float> data = {1, 2, 3, 4};
  auto files = write_weight_files(
      path, {{"a", DType::f32, {4}}, {"b", DType::f32, {2}}},
      [](const TensorSpec& spec) { return std::as_bytes(std::span(data)).first(num_bytes(spec)); });
  files.push_back(write_durably(path + "/state.json", "{}"));
  write_manifest(path, files, [](JsonWriter& json) { json.key("step").value(7); });
}

TEST(Manifest, Example) {
  TempDir dir;
  write_checkpoint(dir.path());
  const FileManifest manifest = read_manifest(dir.path());
  EXPECT_EQ(manifest.info().at("step").as_int64(), 7);
  EXPECT_EQ(first_difference(dir.path(), manifest, ManifestCheck::checksums), std::nullopt);
}

TEST(DirectoryCommit, KilledAtAnyMomentLeavesOnlyWholeDirectories) {
  TempDir dir;
  int committed = 0;
  for (int round = 0; round < 12; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int step = 0;; ++step) {
        DirectoryCommit commit(dir / fmt::format("{}-{}", round, step));
        write_checkpoint(commit.path());
        commit.commit();
      }
    }
    // During the second commit or later; the time depends on the disk.
    while (!fs::exists(dir / fmt::format("{}-0", round))) {
      ASSERT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "the child has ended";
      ::usleep(500);
    }
    ::usleep(static_cast<useconds_t>(2500 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (const auto& entry : fs::directory_iterator(dir.path())) {
      const std::string path = entry.path();
      if (path.find(".partial-") != path.npos) continue;
      ++committed;
      EXPECT_EQ(first_difference(path, read_manifest(path), ManifestCheck::checksums),
                std::nullopt);
    }
    remove_leftovers(dir.path());
    for (const auto& entry : fs::directory_iterator(dir.path()))
      EXPECT_EQ(entry.path().string().find(".partial-"), std::string::npos);
  }
  EXPECT_GE(committed, 12);
}

TEST(Manifest, NamesTheDamagedTensor) {
  TempDir dir;
  write_checkpoint(dir.path());
  std::string bytes = dir.read("model.safetensors");
  bytes[bytes.size() - 1] ^= 1;
  const std::string path = dir.write("model.safetensors", bytes);
  const FileManifest manifest = read_manifest(dir.path());
  EXPECT_EQ(first_difference(dir.path(), manifest, ManifestCheck::sizes), std::nullopt);
  EXPECT_EQ(first_difference(dir.path(), manifest, ManifestCheck::checksums),
            fmt::format("{}: tensor 'b' (bytes {} to {}) does not match its checksum", path,
                        bytes.size() - 8, bytes.size()));
}

TEST(Manifest, StructureIsEverythingButTheValuesOfTensors) {
  TempDir dir;
  write_checkpoint(dir.path());
  const FileManifest manifest = read_manifest(dir.path());
  std::string bytes = dir.read("model.safetensors");
  bytes.back() ^= 1;
  dir.write("model.safetensors", bytes);
  EXPECT_EQ(first_difference(dir.path(), manifest, ManifestCheck::structure), std::nullopt);
  bytes[20] ^= 1;
  dir.write("model.safetensors", bytes);
  EXPECT_EQ(first_difference(dir.path(), manifest, ManifestCheck::structure),
            dir / "model.safetensors" + ": its header does not match its checksum");
  write_checkpoint(dir.path());
  dir.write("state.json", "[]");
  EXPECT_EQ(first_difference(dir.path(), manifest, ManifestCheck::structure),
            dir / "state.json" + ": its contents do not match their checksum");
}

TEST(Manifest, PartsAreCheckedWhileTheyAreCopied) {
  TempDir dir;
  write_checkpoint(dir.path());
  const FileManifest manifest = read_manifest(dir.path());
  const PartReader reader(manifest);
  const SafetensorsFile file(dir / "model.safetensors");
  const TensorView a = file.tensor("a");
  std::vector<std::byte> copy(a.bytes.size());
  reader.read(file.path(), "a", a.bytes, copy.data());
  EXPECT_TRUE(std::ranges::equal(copy, a.bytes));
  copy[3] ^= std::byte{1};
  EXPECT_ERROR_SAYS(reader.read(file.path(), "a", copy), ExitCode::checkpoint,
                    "model.safetensors: tensor 'a' (bytes ");
  EXPECT_ERROR_SAYS(reader.read(file.path(), "c", a.bytes), ExitCode::checkpoint,
                    "its tensor 'c' is missing in the manifest");
}

TEST(Manifest, EveryFlippedBitOfEveryFileIsFound) {
  TempDir dir;
  write_checkpoint(dir.path());
  for (const char* name : {"model.safetensors", "state.json", kManifestName}) {
    const std::string whole = dir.read(name);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
      dir.write(name, flipped);
      bool found = false;
      try {
        found = first_difference(dir.path(), read_manifest(dir.path()), ManifestCheck::checksums)
                    .has_value();
      } catch (const UserError&) {
        found = true;
      }
      EXPECT_TRUE(found) << name << " byte " << i;
    }
    dir.write(name, whole);
  }
}

TEST(Manifest, NamesMissingAndShortFiles) {
  TempDir dir;
  write_checkpoint(dir.path());
  const FileManifest manifest = read_manifest(dir.path());
  dir.write("state.json", "");
  EXPECT_EQ(first_difference(dir.path(), manifest, ManifestCheck::sizes),
            dir / "state.json" + ": has 0 bytes; expected 2");
  fs::remove(dir / "state.json");
  EXPECT_EQ(first_difference(dir.path(), manifest, ManifestCheck::sizes),
            dir / "state.json" + ": cannot be read: no such file or directory");
}

TEST(Manifest, ALaterVersionDiffersFromDamage) {
  TempDir dir;
  dir.write("manifest.json", "{\n \"format\": \"lamina-manifest\",\n \"version\": 9\n}\n");
  EXPECT_ERROR_SAYS(read_manifest(dir.path()), ExitCode::checkpoint,
                    "was written by a newer lamina (manifest version 9, expected 1)");
}

}  // namespace
}  // namespace lamina::io
