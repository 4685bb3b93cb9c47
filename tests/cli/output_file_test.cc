// Output files and directories named by the user: no file of a run is overwritten.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>

#include "cli/trained_run.h"
#include "train/loop/file_owner.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kStep = "/checkpoints/step-00000004/";

// A copy of the trained run, which a command may try to damage.
std::string run_copy(const TempDir& folder) {
  fs::copy(trained_run(), folder / "run", fs::copy_options::recursive);
  folder.write("template", "{% for m in messages %}{{ m.content }}{% endfor %}");
  folder.write("text.txt", "some text to predict\n");
  return folder / "run";
}

Finished embed_to(const TempDir& folder, const std::string& path) {
  return lamina_program({"embed", "-m", folder / "run", "-p", "a", "-o", path});
}

Finished eval_to(const TempDir& folder, const std::string& path) {
  return lamina_program(
      {"eval", "-m", folder / "run", "-d", folder / "text.txt", "--logprobs", path});
}

// Saves a conversation.
Finished save_to(const TempDir& folder, const std::string& path) {
  return lamina::testing::run_shell(fmt::format("echo '/save {}' | " LAMINA_BUILD_DIR
                                                "/bin/lamina chat -m {} --chat-template {}",
                                                path, folder / "run", folder / "template"));
}

std::vector<Finished> write_to(const TempDir& folder, const std::string& path) {
  return {embed_to(folder, path), eval_to(folder, path), save_to(folder, path)};
}

TEST(OutputFile, FilesOfARunAndItsCheckpointsAreNotOverwritten) {
  const TempDir folder;
  const std::string run = run_copy(folder);
  for (const std::string& name :
       {std::string("/metrics.jsonl"), std::string("/config.toml"), std::string("/lock"),
        std::string("/log.txt"), kStep + std::string("model.safetensors"),
        kStep + std::string("manifest.json")}) {
    const std::string before = folder.read("run" + name);
    for (const Finished& f : write_to(folder, run + name)) {
      EXPECT_EQ(f.code, 2) << name;
      EXPECT_THAT(f.err, HasSubstr("error: " + run + name + ": belongs to a "));
      EXPECT_THAT(f.err, HasSubstr("and is not overwritten\n  name a file outside of that"));
    }
    EXPECT_EQ(folder.read("run" + name), before) << name;
  }
}

TEST(OutputFile, ALinkIntoARunIsNoWayAround) {
  const TempDir folder;
  const std::string run = run_copy(folder);
  fs::create_symlink(run + "/metrics.jsonl", folder / "link");
  fs::create_directory_symlink(run + "/checkpoints", folder / "steps");
  for (const std::string& path :
       {folder / "link", folder / "steps/step-00000004/model.safetensors"})
    for (const Finished& f : write_to(folder, path)) EXPECT_EQ(f.code, 2) << path;
}

TEST(OutputFile, NothingIsAddedToACheckpoint) {
  const TempDir folder;
  const std::string run = run_copy(folder);
  for (const std::string& path : {run + kStep + "more.safetensors", run + "/checkpoints/more"})
    for (const Finished& f : write_to(folder, path)) {
      EXPECT_EQ(f.code, 2) << path;
      EXPECT_THAT(f.err, HasSubstr("which only its training writes to"));
    }
  for (const Finished& f : write_to(folder, run + "/" + "more")) EXPECT_NE(f.code, 4);
}

TEST(OutputFile, FilesOfAModelAreNotOverwritten) {
  const TempDir folder;
  run_copy(folder);
  ASSERT_EQ(ckpt({"export", folder / "run", "--to", folder / "model"}).code, 0);
  const std::string before = folder.read("model/model.safetensors");
  for (const Finished& f : write_to(folder, folder / "model/model.safetensors")) {
    EXPECT_EQ(f.code, 2);
    EXPECT_THAT(f.err, HasSubstr("belongs to a model directory"));
  }
  EXPECT_EQ(folder.read("model/model.safetensors"), before);
}

TEST(OutputFile, OnlyAnEmptyFileOrOneOfTheCommandIsOverwritten) {
  const TempDir folder;
  run_copy(folder);
  for (const auto& [write, kind] :
       {std::pair{&embed_to, "a file of `lamina embed`"}, {&eval_to, "a file of --logprobs"}}) {
    folder.write("mine", "before, and long enough");
    const Finished refused = write(folder, folder / "mine");
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err,
                HasSubstr(fmt::format("error: {}: exists and is not {}; only such a file is "
                                      "overwritten\n  choose another name, or remove the file\n",
                                      folder / "mine", kind)));
    EXPECT_EQ(folder.read("mine"), "before, and long enough");
    folder.write("mine", "");
    EXPECT_EQ(write(folder, folder / "mine").code, 0);
    EXPECT_FALSE(folder.read("mine").empty());
    EXPECT_EQ(write(folder, folder / "mine").code, 0);  // its own file
  }
}

TEST(OutputFile, HiddenStatesHaveTheEndingOfTheirForm) {
  const TempDir folder;
  run_copy(folder);
  const Finished f = embed_to(folder, folder / "x.npy");
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(f.err, "error: " + (folder / "x.npy") +
                       ": ends with '.npy'; hidden states are written as .safetensors only\n"
                       "  use -o " +
                       (folder / "x.safetensors") + "\n");
  EXPECT_FALSE(fs::exists(folder / "x.npy"));
}

TEST(OutputFile, FilesThatTheCommandReadsAreNotOverwritten) {
  const TempDir folder;
  const std::string run = run_copy(folder);
  fs::create_directory(folder / "data");
  const std::string text = folder.write("data/a.txt", "some text to predict\n");
  fs::create_symlink(text, folder / "link");
  const std::vector<std::vector<std::string>> commands = {
      {"embed", "-m", run, "-f", text, "-o", text},
      {"embed", "-m", run, "-f", text, "-o", folder / "link"},
      {"eval", "-m", run, "-d", text, "--logprobs", text},
      {"eval", "-m", run, "-d", folder / "data", "--logprobs", text},
      {"eval", "-m", run, "-d", folder / "data/*.txt", "--logprobs", folder / "link"}};
  for (const std::vector<std::string>& words : commands) {
    const Finished f = lamina_program(words);
    EXPECT_EQ(f.code, 2) << words.back();
    EXPECT_THAT(f.err, HasSubstr("error: " + words.back() + ": is read by this command ("));
  }
  EXPECT_EQ(folder.read("data/a.txt"), "some text to predict\n");
}

TEST(OutputFile, SavingAConversationReplacesOnlyAConversation) {
  const TempDir folder;
  run_copy(folder);
  const std::string form = folder.read("template");
  folder.write("notes", "mine");
  folder.write("empty", "");
  EXPECT_THAT(save_to(folder, folder / "template").err, HasSubstr("is read by this command"));
  EXPECT_EQ(folder.read("template"), form);
  const Finished f = save_to(folder, folder / "notes");
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(
      f.err,
      HasSubstr("notes: exists and is not a saved conversation; only such a file is overwritten"));
  EXPECT_EQ(folder.read("notes"), "mine");
  EXPECT_EQ(save_to(folder, folder / "empty").code, 0);
  EXPECT_EQ(save_to(folder, folder / "empty").code, 0);  // its own file
}

// The words after "train", and the place and the words of the error.
struct RefusedFolder {
  std::vector<std::string> words;
  std::string says;
};

TEST(OutputFolder, OfARunIsOutsideOfModelsOtherRunsAndItsData) {
  const TempDir folder;
  const std::string run = run_copy(folder);
  ASSERT_EQ(ckpt({"export", run, "--to", folder / "model"}).code, 0);
  fs::create_directory(folder / "data");
  folder.write("data/a.txt", "some text to predict, and some more\n");
  const std::string data = "data.train=" + (folder / "data"),
                    glob = "data.train=" + (folder / "da*"),
                    inside = "data.train=" + (folder / "data/*");
  fs::create_directory_symlink(folder / "data", folder / "link");
  const std::vector<RefusedFolder> cases = {
      {{"--out", ""}, "'--out' must not be empty"},
      {{"--out", folder / "model"}, "model' is a model directory: other commands would read"},
      {{"--out", run + "/checkpoints"}, "which only its training writes to"},
      {{"--out", run + kStep + "inner"}, "which only its training writes to"},
      {{"--out", folder / "new", "--set", "data.store=" + run + "/checkpoints"},
       "which only its training writes to"},
      {{"--out", folder / "data/run", "--set", data}, "so its files would be read as data"},
      {{"--out", folder / "data/run", "--set", glob}, "so its files would be read as data"},
      {{"--out", folder / "data/run", "--set", inside}, "so its files would be read as data"},
      {{"--out", folder / "data/run", "--set", "data.train=" + (folder / "link/*")},
       "so its files would be read as data"},
      {{"--out", folder / "new/run", "--set", "data.train=" + (folder / "n*/")},
       "so its files would be read as data"},
      {{"--out", folder / "new/run", "--set", "data.train=" + (folder / "new")},
       "so its files would be read as data"},
      {{"--out", folder / "new", "--set", data, "--set", "data.store=" + (folder / "data/tokens")},
       "so its files would be read as data"},
      {{"--out", folder / "new", "--set", inside, "--set",
        "data.store=" + (folder / "data/tokens")},
       "so its files would be read as data"}};
  for (const RefusedFolder& one : cases)
    for (const bool dry : {false, true}) {
      std::vector<std::string> more = one.words;
      if (dry) more.emplace_back("--dry-run");
      const Finished f = train_tiny(folder, "unused", more);
      EXPECT_EQ(f.code, 2) << one.says << f.err;
      EXPECT_THAT(f.err, HasSubstr(one.says));
    }
  for (const char* made : {"model/checkpoints", "data/run", "data/tokens", "new", "unused"})
    EXPECT_FALSE(fs::exists(folder / made)) << made;
}

TEST(OutputFolder, MayBeHiddenInsideTheData) {
  const TempDir folder;
  fs::create_directory(folder / "data");
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("line {}\n", i);
  folder.write("data/a.txt", text);
  const std::vector<std::string> more = {"--out", folder / "data/.run",
                                         "--set", "data.train=" + (folder / "data"),
                                         "--set", "data.store=none"};
  EXPECT_EQ(train_tiny(folder, "unused", more).code, 0);
  EXPECT_EQ(train_tiny(folder, "unused", more).code, 0);  // resumes
}

TEST(OutputFile, DeviceNodesStay) {
  const TempDir folder;
  run_copy(folder);
  const std::string node = folder / "node";
  if (::mknod(node.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0 || ::access(node.c_str(), W_OK))
    GTEST_SKIP() << "device nodes cannot be made here";
  for (const Finished& f : write_to(folder, node)) EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_TRUE(fs::is_character_file(node));
}

TEST(OutputFile, OwnersAreFoundThroughDotsAndLinks) {
  const TempDir folder;
  const std::string run = run_copy(folder);
  fs::create_directory(folder / "elsewhere");
  EXPECT_EQ(train::file_owner(run + "/checkpoints/../metrics.jsonl")->directory, run);
  EXPECT_FALSE(train::file_owner(run + "/notes")->is_closed);
  EXPECT_TRUE(train::file_owner(run + "/checkpoints/a/b")->is_closed);
  EXPECT_EQ(train::file_owner(run + kStep + "x")->kind, "a checkpoint");
  EXPECT_FALSE(train::file_owner(folder / "notes").has_value());
  fs::create_directory_symlink(run + "/checkpoints", folder / "elsewhere/link");
  EXPECT_TRUE(train::file_owner(folder / "elsewhere/link/../metrics.jsonl").has_value());
  EXPECT_FALSE(train::file_owner(run + "/exports/model/x").has_value());
  // A config.json can belong to any program.
  folder.write("elsewhere/config.json", "{\"port\": 80}");
  EXPECT_FALSE(train::file_owner(folder / "elsewhere/x").has_value());
  folder.write("elsewhere/config.json", "{\"model_type\": \"llama\"}");
  EXPECT_EQ(train::file_owner(folder / "elsewhere/x")->kind, "a model directory");
}

TEST(NewDirectory, AnEmptyNameAndALinkToNothingAreRefusedAtOnce) {
  const TempDir folder;
  fs::create_symlink("nowhere", folder / "dangling");
  const std::string run = trained_run();
  const std::vector<std::vector<std::string>> commands = {
      {"export", run}, {"average", run, run}, {"merge", run}};
  for (std::vector<std::string> words : commands) {
    words.insert(words.end(), {"--to", ""});
    Finished f = ckpt(words);
    EXPECT_EQ(f.code, 2);
    EXPECT_THAT(f.err, HasSubstr("'--to' must not be empty"));
    for (const std::string& path : {folder / "dangling", folder / "dangling/"}) {
      words.back() = path;
      f = ckpt(words);
      EXPECT_EQ(f.code, 2);
      EXPECT_THAT(f.err, HasSubstr("is a dangling link; --to must be a new directory"));
    }
    words.back() = folder / "dangling/model";
    f = ckpt(words);
    EXPECT_EQ(f.code, 2);
    EXPECT_THAT(f.err, HasSubstr(folder / "dangling" + ": is a dangling link\n"));
  }
}

TEST(NewDirectory, MayEndWithADotButNotWithTwo) {
  const TempDir folder;
  const Finished dot = ckpt({"export", trained_run(), "--to", folder / "one/."});
  EXPECT_EQ(dot.code, 0) << dot.err;
  EXPECT_TRUE(fs::exists(folder / "one/config.json"));
  const Finished dots = ckpt({"export", trained_run(), "--to", folder / "two/.."});
  EXPECT_EQ(dots.code, 2);
  EXPECT_THAT(dots.err, HasSubstr("ends with '..'; --to must be a new directory"));
  EXPECT_FALSE(fs::exists(folder / "two"));
}

TEST(NewDirectory, IsNotAmongTheCheckpointsOfARun) {
  const TempDir folder;
  const std::string run = run_copy(folder);
  for (const std::string& to : {run + "/checkpoints/step-00000041",
                                run + "/checkpoints/deeper/model", run + kStep + "hf"}) {
    const Finished f = ckpt({"export", run, "--to", to});
    EXPECT_EQ(f.code, 2) << to;
    EXPECT_THAT(f.err, HasSubstr("which only its training writes to"));
    EXPECT_FALSE(fs::exists(to));
  }
  EXPECT_EQ(ckpt({"export", run, "--to", run + "/exported"}).code, 0);
}

TEST(NewDirectory, LeftoversOfAKilledExportAreNamedAndRemoved) {
  const TempDir folder;
  const std::string left = folder / "model.partial-00ff00ff00ff00ff";
  folder.write("model.partial-00ff00ff00ff00ff/model.safetensors", "half");
  folder.write("model.merging/mine", "of the user");
  const Finished f = ckpt({"export", trained_run(), "--to", folder / "model"});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("removed " + left + ", which an interrupted command had"));
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(folder / "model.merging/mine"));
}

}  // namespace
}  // namespace lamina::cli
