// train.quantize: frozen matrices of a plain base are rounded when a run starts.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/read_file.h"
#include "formats/lookup.h"
#include "inspect/plan/model_plan.h"
#include "support/expect_error.h"
#include "support/packed_model.h"
#include "train/lora_run.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using Sets = std::vector<std::string>;

// The format of --quantize int4 for rows of 64 and 96 values.
const formats::BlockFormat& int4_blocks() { return *formats::block_format_named("INT4_32"); }

std::string run_file(const TempDir& folder, const std::string& lora = "[lora]\nrank = 4\n") {
  return folder.write("run.toml",
                      "[data]\ntrain = [\"text.txt\"]\nsequence_length = 24\n[train]\n"
                      "steps = 4\nbatch_size = 2\ndtype = \"bfloat16\"\n" +
                          lora +
                          "[optimizer]\nlr = 1e-2\n[checkpoint]\nevery_steps = 2\nkeep = 100\n"
                          "[run]\nseed = 5\n");
}

Sets sets_of(const TempDir& folder, const std::string& from, const std::string& out, Sets more) {
  more.push_back("train.from=" + folder / from);
  more.push_back("run.out=" + folder / out);
  return more;
}

struct BaseRun : RunOfFile {
  BaseRun(const TempDir& folder, const std::string& from, const std::string& out, Sets more)
      : RunOfFile(run_file(folder), sets_of(folder, from, out, std::move(more))) {}
};

const formats::BlockFormat* storage_of(const RunOfFile& run, const char* parameter) {
  const decoder::ParameterTable& table = run.training.model->parameters();
  return table[table.find(parameter)].storage;
}

std::string file_of(const RunOfFile& run, const char* name) {
  return read_file(run.checkpoint() + name, ExitCode::data);
}

TEST(QuantisedBase, TrainsToTheBitsOfTheSameBlocksInFiles) {
  const PackedModel folder(int4_blocks());
  for (const std::string dora : {"false", "true"}) {
    const Sets kind = {"lora.use_dora=" + dora};
    Sets rounded = kind;
    rounded.push_back("train.quantize=int4");
    BaseRun mine(folder, "base", "mine", rounded), theirs(folder, "packed", "theirs", kind);
    const auto got = mine.steps(), want = theirs.steps();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].loss, want[i].loss) << i;
    for (const char* name : {"/adapter_model.safetensors", "/model.safetensors"})
      EXPECT_TRUE(file_of(mine, name) == file_of(theirs, name)) << name;
    fs::remove_all(folder / "mine");
    fs::remove_all(folder / "theirs");
  }
}

TEST(QuantisedBase, ResumesToTheSameBitsWithoutTheBase) {
  const PackedModel folder(int4_blocks());
  const Sets sets = {"train.quantize=int4", "train.quantize_rules=[\"embedding=int8\"]"};
  BaseRun whole(folder, "base", "whole", sets);
  whole.train();
  EXPECT_TRUE(BaseRun(folder, "base", "parts", sets).train(2).stopped);
  fs::rename(folder / "base", folder / "gone");
  BaseRun rest(folder, "base", "parts", sets);
  EXPECT_EQ(storage_of(rest, "layers.0.attention.wq.weight"), &int4_blocks());
  EXPECT_FALSE(rest.train().stopped);
  for (const char* name :
       {"/model.safetensors", "/optimizer.safetensors", "/adapter_model.safetensors"})
    EXPECT_TRUE(file_of(rest, name) == file_of(whole, name)) << name;
}

// An older version may have rounded other matrices by default.
TEST(QuantisedBase, ResumesInTheFormatsOfTheCheckpoint) {
  const PackedModel folder;
  BaseRun older(
      folder, "base", "out",
      {"train.quantize=int4", "train.quantize_rules=[\"embedding=int8\", \"layers:0=none\"]"});
  EXPECT_TRUE(older.train(2).stopped);
  const config::RunConfig now = config::load_run(
      run_file(folder), {sets_of(folder, "base", "out", {"train.quantize=int4"}), {}});
  const auto model = model::open_training(now, built_plugins(), older.checkpoint(), {}).model;
  const decoder::ParameterTable &before = older.training.model->parameters(),
                                &after = model->parameters();
  for (std::size_t i = 0; i < before.all().size(); ++i)
    EXPECT_EQ(after.all()[i].storage, before.all()[i].storage) << after.all()[i].name;
}

TEST(QuantisedBase, ARuleRoundsTheFrozenTable) {
  const PackedModel folder;
  BaseRun run(
      folder, "base", "out",
      {"train.quantize=int4", "train.quantize_rules=[\"embedding=int8\", \"layers:0=none\"]"});
  EXPECT_EQ(storage_of(run, "embed.weight")->name, "INT8_64");
  EXPECT_EQ(storage_of(run, "layers.0.attention.wq.weight"), nullptr);
  EXPECT_EQ(storage_of(run, "layers.1.attention.wq.weight"), &int4_blocks());
  EXPECT_FALSE(run.train().stopped);
}

TEST(QuantisedBase, ThePlanHasTheMemoryOfTheRun) {
  const PackedModel folder;
  const Sets sets = sets_of(folder, "base", "out",
                            {"train.quantize=int4", "train.quantize_rules=[\"embedding=int8\"]"});
  const auto planned =
      model::open_trained(config::load_run(run_file(folder), {sets, {}}), built_plugins());
  RunOfFile run(run_file(folder), sets);
  EXPECT_EQ(train::train_bytes(planned->parameters(), DType::bf16, false).total(),
            run.run->loop().state().bytes());
}

std::string refusal(const TempDir& folder, const std::string& from, const Sets& more,
                    const std::string& lora = "[lora]\nrank = 4\n") {
  const std::string file = run_file(folder, lora);
  try {
    model::open_trained(config::load_run(file, {sets_of(folder, from, "refused", more), {}}),
                        built_plugins());
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

TEST(QuantisedBase, TrainingAsAWholeIsRefused) {
  const PackedModel folder;
  EXPECT_EQ(refusal(folder, "base", {"train.quantize=int4"}, ""),
            "--set train.quantize=int4: train.quantize: is \"int4\", but no matrix is frozen; "
            "matrices that are trained must be plain\n"
            "  add [lora] with a rank, which trains an adapter only, or remove the key");
}

TEST(QuantisedBase, ABaseInBlocksIsRefused) {
  const PackedModel folder;
  const std::string text = refusal(folder, "packed", {"train.quantize=int4"});
  EXPECT_NE(text.find("is quantised already"), text.npos) << text;
  EXPECT_NE(text.find("\n  remove it: all matrices that it would round are quantised in the files"),
            text.npos)
      << text;
}

TEST(QuantisedBase, UnknownFormatsAndRulesNameTheirKeys) {
  const PackedModel folder;
  std::string text = refusal(folder, "base", {"train.quantize=int3"});
  EXPECT_NE(text.find("'int3' is not a format; expected int8"), text.npos) << text;
  text =
      refusal(folder, "base", {"train.quantize=int4", "train.quantize_rules=[\"nothing=int8\"]"});
  EXPECT_NE(text.find("train.quantize_rules"), text.npos) << text;
  EXPECT_NE(text.find("matches no parameter of this model"), text.npos) << text;
}

}  // namespace
}  // namespace lamina::testing
