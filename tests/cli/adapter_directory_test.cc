// Commands that take the directory of an adapter in PEFT's form, which has neither model nor
// tokenizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/trained_run.h"
#include "model/place.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;

std::string run_from(const std::string& from, const std::string& out, const std::string& more) {
  return "[run]\nout = \"" + out +
         "\"\n[data]\ntrain = \"" LAMINA_SOURCE_DIR
         "/docs/glossary.md\"\nsequence_length = 32\n[train]\nfrom = \"" +
         from + "\"\nsteps = 2\nbatch_size = 2\n" + more;
}

// An adapter of trained_run(), alone in its directory.
const std::string& adapter() {
  static const TempDir folder;
  static const std::string path = [] {
    const Finished result = lamina_program(
        {"train",
         folder.write("run.toml", run_from(trained_run(), folder / "out", "[lora]\nrank = 2\n")),
         "--quiet"});
    EXPECT_EQ(result.code, 0) << result.err;
    fs::create_directory(folder / "adapter");
    for (const std::string name : {"adapter_config.json", "adapter_model.safetensors"})
      fs::copy_file(folder / ("out/checkpoints/step-00000002/" + name),
                    folder / ("adapter/" + name));
    return folder / "adapter";
  }();
  return path;
}

TEST(AdapterDirectory, IsTheStartOfARunForEveryCommandThatReadsRunFiles) {
  const TempDir folder;
  const std::string run = folder.write(
      "run.toml", run_from(adapter(), folder / "out", "[checkpoint]\nevery_steps = 2\n"));
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"train", run, "--dry-run"},
           {"data", "show", run},
           {"data", "build", run, "--set", "data.store=" + (folder / "store")},
           {"plan", run},
           {"train", run, "--quiet"}}) {
    const Finished result = lamina_program(words);
    EXPECT_EQ(result.code, 0) << words[0] << " " << words[1] << ": " << result.err;
  }
}

TEST(AdapterDirectory, MayBeTheOneOfItsPublishedModel) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "both"}).code, 0);
  const Finished apart =
      ckpt({"merge", folder / "both", "--adapter", adapter(), "--to", folder / "apart"});
  EXPECT_EQ(apart.code, 0) << apart.err;
  for (const std::string name : {"/adapter_config.json", "/adapter_model.safetensors"})
    fs::copy_file(adapter() + name, folder / "both" + name);
  const Finished together = ckpt({"merge", folder / "both", "--to", folder / "together"});
  EXPECT_EQ(together.code, 0) << together.err;
  EXPECT_EQ(folder.read("apart/model.safetensors"), folder.read("together/model.safetensors"));
}

TEST(AdapterDirectory, NothingIsWrittenIntoItsModel) {
  const TempDir folder;
  ASSERT_EQ(ckpt({"export", trained_run(), "--to", folder / "base"}).code, 0);
  fs::copy(adapter(), folder / "adapter");
  const std::string config = folder.read("adapter/adapter_config.json"),
                    key = "\"base_model_name_or_path\": ";
  const std::size_t at = config.find(key) + key.size();
  ASSERT_NE(config.find(key), config.npos);
  folder.write("adapter/adapter_config.json",
               config.substr(0, at) + "\"../base\"" + config.substr(config.find(',', at)));
  const Finished result = ckpt({"merge", folder / "adapter", "--to", folder / "base/merged"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("is inside " + folder / "base" +
                                    ", the directory of a model that is read"));
  EXPECT_FALSE(fs::exists(folder / "base/merged"));
  EXPECT_EQ(ckpt({"merge", folder / "adapter", "--to", folder / "merged"}).code, 0);
}

TEST(AdapterDirectory, ALinkToItHasTheSameModel) {
  const TempDir folder;
  folder.write("store/adapter/adapter_config.json",
               R"({"peft_type": "LORA", "base_model_name_or_path": "../base", "r": 2,
                   "lora_alpha": 2, "target_modules": ["q_proj"]})");
  fs::create_directories(folder / "store/base");
  fs::create_directories(folder / "links/base");  // another model
  fs::create_directory_symlink("../store/adapter", folder / "links/latest");
  EXPECT_EQ(model::base_of_adapter(folder / "store/adapter"), folder / "store/base");
  EXPECT_TRUE(
      fs::equivalent(model::base_of_adapter(folder / "links/latest"), folder / "store/base"));
}

TEST(AdapterDirectory, HasTheTokenizerOfItsModel) {
  const Finished own = lamina_program({"tokenize", "-m", trained_run(), "-p", "a bc"}),
                 adapted = lamina_program({"tokenize", "-m", adapter(), "-p", "a bc"});
  EXPECT_EQ(adapted.code, 0) << adapted.err;
  EXPECT_EQ(adapted.out, own.out);
}

TEST(AdapterDirectory, CanBeMeasured) {
  const Finished decoded =
      lamina_program({"bench", "decode", "-m", adapter(), "-n", "2", "--repeats", "1", "--json"});
  EXPECT_EQ(decoded.code, 0) << decoded.err;
  const Finished read = lamina_program({"bench", "text", "-m", adapter(), "--repeats", "1", "-f",
                                        LAMINA_SOURCE_DIR "/docs/glossary.md"});
  EXPECT_EQ(read.code, 0) << read.err;
}

TEST(AdapterDirectory, IsNamedInResults) {
  const TempDir folder;
  const std::string text = folder.write("text.txt", "In the beginning");
  const std::string records = folder.write(
      "choices.jsonl", R"({"context": "In the", "choices": ["end", "beginning"], "answer": 1})");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--data", text},
                                             {"--data", records, "--task", "choices"},
                                             {"--data", text, "--against", trained_run()}}) {
    std::vector<std::string> command = {"eval", "-m", adapter(), "--quantize", "int8"};
    command.insert(command.end(), words.begin(), words.end());
    const Finished table = lamina_program(command);
    EXPECT_EQ(table.code, 0) << table.err;
    EXPECT_THAT(table.out, ::testing::ContainsRegex("\nadapter +" + adapter() + "\n"));
    EXPECT_THAT(table.out, ::testing::ContainsRegex("\nquantize +int8\n"));
    command.push_back("--json");
    const Finished json = lamina_program(command);
    EXPECT_THAT(json.out, HasSubstr("\"adapter\": \"" + adapter() + "\""));
    EXPECT_THAT(json.out, HasSubstr("\"quantize\": \"int8\""));
  }
}

TEST(AdapterDirectory, IsListedVerifiedAndCompared) {
  const Finished listed = ckpt({"ls", "-v", adapter()});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, ::testing::StartsWith("adapter "));
  EXPECT_THAT(listed.out, HasSubstr("lora_A.weight"));
  const Finished verified = ckpt({"verify", adapter()});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr(" tensors, well-formed"));
  const Finished compared =
      ckpt({"diff", adapter(), fs::path(adapter()).parent_path() / "out", "--json"});
  EXPECT_EQ(compared.code, 0) << compared.out << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("\"same\": true"));
}

TEST(AdapterDirectory, WithoutItsWeightsIsIncompleteForEveryCommand) {
  const TempDir folder;
  fs::create_directory(folder / "part");
  fs::copy_file(adapter() + "/adapter_config.json", folder / "part/adapter_config.json");
  const std::string part = folder / "part";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"decode", "-m", part, "-p", "a"},
           {"decode", "-m", trained_run(), "--adapter", part, "-p", "a"},
           {"plan", part},
           {"ckpt", "verify", part},
           {"ckpt", "diff", adapter(), part}}) {
    const Finished f = lamina_program(words);
    EXPECT_EQ(f.code, 4) << words[0] << " " << words[1];
    EXPECT_THAT(f.err, ::testing::EndsWith(
                           part + ": has neither adapter_model.safetensors nor "
                                  "adapter_model.safetensors.index.json\n"
                                  "  it contains adapter_config.json, but not the weights of the "
                                  "adapter, adapter_model.safetensors: copy that file too\n"));
  }
}

TEST(AdapterDirectory, OfARunIsFromItsNewestCheckpoint) {
  const TempDir folder;
  const std::string run = folder / "run";
  fs::copy(trained_run(), run, fs::copy_options::recursive);
  for (const char* name : {"/adapter_config.json", "/adapter_model.safetensors"})
    fs::copy_file(adapter() + name, run + "/checkpoints/step-00000004" + name);
  const auto decode = [](const std::string& with) {
    return lamina_program(
        {"decode", "-m", trained_run(), "--adapter", with, "-p", "a", "-n", "4", "--temp", "0"});
  };
  const Finished direct = decode(adapter());
  EXPECT_EQ(direct.code, 0) << direct.err;
  EXPECT_EQ(decode(run).out, direct.out);
  const auto refused = [&](const std::string& with, const std::string& why) {
    const Finished f = decode(with);
    EXPECT_EQ(f.code, 4);
    EXPECT_EQ(f.err,
              "error: " + with + ": " + why +
                  "\n  expected a directory as PEFT saves it, or a checkpoint or run with an "
                  "adapter\n");
  };
  refused(trained_run(), "has no adapter_config.json");
  refused(folder / "none", "no such file or directory");
  refused(adapter() + "/adapter_config.json", "is not a directory");
}

TEST(AdapterDirectory, OfAnotherModelAsksForThatModel) {
  const TempDir folder;
  std::string run = tiny_run_file(folder / "narrow");
  run.replace(run.find("hidden_size = 32"), 16, "hidden_size = 16");
  ASSERT_EQ(lamina_program({"train", folder.write("run.toml", run), "--quiet"}).code, 0);
  const auto refused = [&](const std::string& model, const std::string& with,
                           const std::string& says) {
    const Finished f = lamina_program({"decode", "-m", model, "--adapter", with, "-p", "a"});
    EXPECT_EQ(f.code, 4);
    EXPECT_THAT(f.err, HasSubstr(says));
    EXPECT_THAT(f.err, Not(HasSubstr("use the config.json")));
  };
  refused(folder / "narrow", adapter(),
          "\n  the adapter was trained over another model: give that one\n");
  fs::copy(adapter(), folder / "other");
  std::string config = folder.read("other/adapter_config.json");
  const std::size_t rank = config.find("\"r\": 2");
  ASSERT_NE(rank, config.npos);
  folder.write("other/adapter_config.json", config.replace(rank, 6, "\"r\": 4"));
  refused(trained_run(), folder / "other",
          "\n  use the adapter_config.json that belongs to these weights\n");
}

TEST(AdapterDirectory, MergesIntoAQuantisedModelAsPlainValues) {
  const TempDir folder;
  const std::string quantised = folder / "q";
  ASSERT_EQ(lamina_program({"quantize", trained_run(), "--to", quantised, "--format", "int8"}).code,
            0);
  nest_config(folder, "q");
  const Finished f = ckpt({"merge", quantised, "--adapter", adapter(), "--to", folder / "merged"});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(folder.read("merged/config.json"), HasSubstr("text_config"));
  EXPECT_THAT(folder.read("merged/config.json"), Not(HasSubstr("quantization_config")));
}

TEST(AdapterDirectory, IsNotComparedWithAModel) {
  const std::string model = trained_run() + "/checkpoints/step-00000004";
  for (const auto& [a, b] : {std::pair(adapter(), model), {model, adapter()}}) {
    const Finished f = ckpt({"diff", a, b});
    EXPECT_EQ(f.code, 4);
    EXPECT_EQ(f.err, "error: " + model + ": has no adapter to compare with the adapter " +
                         adapter() +
                         "; expected another adapter, or a checkpoint with one\n"
                         "  `lamina ckpt merge` writes a model with the adapter, to compare with "
                         "this one\n");
  }
}

}  // namespace
}  // namespace lamina::cli
