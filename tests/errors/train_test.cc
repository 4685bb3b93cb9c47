// Mistakes in the command line of a training run, and faults during a run.
#include "errors/workplace.h"
#include "support/paths.h"

#include <algorithm>

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// A dry run refuses what the run would refuse.
TEST(TrainErrors, ADryRunRefusesSettingsWithoutAnEffectOnTheModel) {
  Workplace w;
  for (const char* plan : {"--dry-run", "--fit"}) {
    w.expect({{"train", "run.toml", plan, "--set", "optimizer.qk_clip=100"},
              2,
              {"--set optimizer.qk_clip=100: optimizer.qk_clip: is for latent attention"}});
    w.expect({{"train", "run.toml", plan, "--resume", "nowhere"},
              4,
              {"nowhere: no such directory; expected a checkpoint or a run directory"}});
  }
}

TEST(TrainErrors, TheCurrentDirectoryMustBeUtf8) {
  Workplace w;
  const std::string folder = w.path("caf\xe9").string();
  fs::create_directory(folder);
  for (const char* name : {"run.toml", "text.txt"})
    fs::copy_file(w.path(name), folder + "/" + name);
  const Finished f =
      run_process({LAMINA_BUILD_DIR "/bin/lamina", "train", "run.toml"}, {.folder = folder});
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(
      f.err, ::testing::HasSubstr("caf\\xe9: is the current directory, whose name is not UTF-8; "));
  EXPECT_FALSE(fs::exists(folder + "/out"));
}

TEST(TrainErrors, RunFileErrorsComeBeforeAnyOutput) {
  Workplace w;
  const Mistake mistakes[] = {
      {{"train", "nowhere.toml"}, 2, {"nowhere.toml: cannot be read: no such file or directory"}},
      {{"train", "run.toml", "--set", "train.remat=minimall", "--set", "data.train=nowhere.txt"},
       2,
       {"train.remat: unknown policy 'minimall'", "did you mean 'minimal'?"}},
      {{"train", "run.toml", "--set", "train.remat=custom", "--set",
        "train.remat_tags.query_prj=device"},
       2,
       {"--set train.remat_tags.query_prj=device: train.remat_tags.query_prj: unknown tag "
        "'query_prj'",
        "did you mean 'query_proj'?"}},
      {{"train", "run.toml", "--set", "train.remat=custom", "--set",
        "train.remat_tags.moe_mlpwo=device"},
       2,
       {"--set train.remat_tags.moe_mlpwo=device: train.remat_tags.moe_mlpwo: no layer of this "
        "model names a value 'moe_mlpwo'",
        "its layers name ", "key_proj, mlpwi_0, "}},
      {{"train", "run.toml", "--set", "train.remat=custom"},
       2,
       {"--set train.remat=custom: train.remat: 'custom' needs tags in [train.remat_tags]"}},
      {{"train", "run.toml", "--set", "train.remat_tags.context=device"},
       2,
       {"train.remat_tags.context: tags are for train.remat = \"custom\", which is \"none\""}},
      {{"train", "run.toml", "--set", "train.remat_tags.context=disk"},
       2,
       {"'train.remat_tags.context' must be \"device\", \"offload\" or \"remat\", got \"disk\""}},
      {{"train", "run.toml", "--set", "family=llama9"},
       8,
       {"--set family=llama9: no plugin has family 'llama9'; found: ", "did you mean 'llama2'?",
        "looked in: "}},
      {{"train", "run.toml", "--set", "model.hiden_size=3"},
       2,
       {"--set model.hiden_size=3: unknown key 'model.hiden_size'",
        "did you mean 'model.hidden_size'?"}},
      {{"train", "run.toml", "--set", "family=simple"},  // keys of another family
       2,
       {"run.toml:5: unknown key 'model.intermediate_size'"}},
      {{"train", "run.toml", "--set", "model.hidden_size=wide"},
       2,
       {"--set model.hidden_size=wide", "must be an integer", "\"wide\""}},
      {{"train", "run.toml", "--set", "model.num_hidden_layers=-1"},
       2,
       {"'model.num_hidden_layers' must be an integer, at least 1", "got -1"}},
      {{"train", "run.toml", "--set", "model.num_attention_heads=3"},
       2,
       {"num_attention_heads = 3 does not divide hidden_size = 16", "give head_dim"}},
      {{"train", "run.toml", "--set", "model.num_key_value_heads=3"},
       2,
       {"num_key_value_heads", "got 3; it must divide num_attention_heads = 2"}},
      {{"train", "run.toml", "--set", "model.head_dim=7"},
       2,
       {"head_dim",
        "got 7 with hidden_size = 16 and num_attention_heads = 2; rotary positions need an even "
        "head_dim"}},
      {{"train", "run.toml", "--set", "model.vocab_size=2147483648"},
       2,
       {"'model.vocab_size' must be an integer, at least 1 and at most 2147483647, got "
        "2147483648"}},
      {{"train", "run.toml", "--set", "model.vocab_size=200"},
       2,
       {"model.vocab_size: is 200; the tokenizer has 258 ids", "raise it to at least that"}},
      {{"train", "run.toml", "--set", "family=gpt3", "--set", "data.sequence_length=65"},
       2,
       {"data.sequence_length: is 65; the model has learned positions for 64 tokens",
        "use at most 64"}},
      {{"train", "run.toml", "--set", "train.microbatch_size=3"}, 2, {"microbatch_size", "3"}},
      {{"train", "run.toml", "--set", "optimizer.lr=nan"}, 2, {"optimizer.lr", "nan"}},
      {{"train", "run.toml", "--set", "optimizer.beta1=1"},
       2,
       {"optimizer.beta1", "less than 1, got 1"}},
  };
  for (const Mistake& m : mistakes) w.expect(m);
  EXPECT_FALSE(w.exists("out"));
}

// A few steps of a run file for many steps.
TEST(TrainErrors, AWarmUpThatIsLongerThanTheRunIsAWarning) {
  Workplace w;
  const Finished f = w.lamina(
      {"train", "run.toml", "--set", "train.steps=2", "--set", "schedule.warmup_steps=40"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.err.find("'schedule.warmup_steps' is 40, more than 'train.steps' = 2: the learning "
                       "rate never reaches its peak"),
            f.err.npos)
      << f.err;
}

TEST(TrainErrors, DataThatCannotBeTrainedOnIsNamedBeforeAnythingIsWritten) {
  Workplace w;
  w.write("empty.txt", "");
  w.write("short.txt", "ab");
  w.write("latin1.txt", "abc\xe9 def");
  fs::create_directory(w.path("folder"));
  const Mistake mistakes[] = {
      {{"train", "run.toml", "--set", "data.train=nowhere.txt"},
       5,
       {"nowhere.txt: no such file or directory", "relative to the current directory"}},
      {{"train", "run.toml", "--set", "data.train=*.jsonl"}, 5, {"*.jsonl"}},
      {{"train", "run.toml", "--set", "data.train=empty.txt"},
       5,
       {"empty.txt: the file contains no text"}},
      {{"train", "run.toml", "--set", "data.train=short.txt"},
       5,
       {"short.txt: the text has 4 tokens in total; one row needs 25",
        "set data.sequence_length to at most 3"}},
      {{"train", "run.toml", "--set", "data.train=latin1.txt"},
       5,
       {"latin1.txt:1: is not UTF-8: byte 3 of the file is 0xe9", "iconv -t utf-8"}},
      {{"train", "run.toml", "--set", "data.tokenizer=nowhere"},
       5,
       {"nowhere: no such directory", "or set data.tokenizer to a directory with a tokenizer"}},
      {{"train", "run.toml", "--set", "data.validation_fraction=0.999"}, 5, {"validation"}},
  };
  for (const Mistake& m : mistakes) w.expect(m);
  EXPECT_FALSE(w.exists("out"));
}

TEST(TrainErrors, AMissingFileIsNamedWithItsKeyAndLine) {
  Workplace w;
  std::string run = w.read("run.toml");
  run.replace(run.find("text.txt"), 8, "texd.txt");
  fs::create_directory(w.path("sub"));
  w.write("sub/run.toml", run);
  w.expect({{"train", "sub/run.toml"},
            5,
            {"error: sub/run.toml:10: data.train: sub/texd.txt: no such file or directory\n"
             "  check the path; it is relative to the folder of the run file"}});
  w.expect({{"train", "run.toml", "--dry-run", "--set", "data.validation=no*.txt"},
            5,
            {"data.validation: no*.txt: matches no file", "relative to the current directory"}});
}

// The folders do not exist yet, and would be read as data when the run is resumed.
TEST(TrainErrors, FoldersThatAGlobOfTheDataWillMatchAreRefusedAtTheFirstStart) {
  const Workplace w;
  w.expect({{"train", "run.toml", "--set", "data.train=*"}, 2, {"out' is inside the data '*'"}});
  w.expect({{"train", "run.toml", "--set", "data.train=t*"},
            2,
            {"tokens' is inside the data 't*'", "choose another directory"}});
  EXPECT_FALSE(w.exists("out"));
  const Finished f = w.lamina(
      {"train", "run.toml", "--quiet", "--set", "data.train=t*", "--set", "data.store=none"});
  EXPECT_EQ(f.code, 0) << f.err;
}

TEST(TrainErrors, AFinishedRunHasNothingToDo) {
  Workplace w;
  w.train();
  const Finished f = w.lamina({"train", "run.toml", "--set", "train.steps=2"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, ::testing::HasSubstr("nothing to do: the run is at step 4, and train.steps "
                                          "is 2; `lamina decode -m out"));
  EXPECT_THAT(f.err, ::testing::Not(::testing::HasSubstr("done;")));
}

TEST(TrainErrors, AnAdapterOnRandomWeightsIsAWarning) {
  Workplace w;
  const Finished f = w.lamina({"train", "run.toml", "--set", "lora.rank=2"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, ::testing::HasSubstr("'lora.rank' is 2, and 'train.from' is missing: the "
                                          "adapter is trained on random weights"));
}

TEST(TrainErrors, BytesForALargeVocabularyAreAWarning) {
  Workplace w;
  const std::vector<std::string> words = {"train", "run.toml", "--set", "model.vocab_size=5000"};
  const char* const kWarning = "'data.tokenizer' is not set: text is read as bytes";
  EXPECT_THAT(w.lamina(words).err, ::testing::HasSubstr(kWarning));
  std::vector<std::string> chosen = words;
  chosen.insert(chosen.end(), {"--set", "data.tokenizer=byte", "--out", "chosen"});
  EXPECT_THAT(w.lamina(chosen).err, ::testing::Not(::testing::HasSubstr(kWarning)));
}

// The learning rate ends the run after a few steps.
TEST(TrainErrors, CheckpointsThatCannotFitAreAWarning) {
  Workplace w;
  const Finished f = w.lamina({"train", "run.toml", "--set", "optimizer.lr=1e30", "--set",
                               "train.steps=10000000000", "--set", "checkpoint.every_steps=1",
                               "--set", "checkpoint.keep=1000000000"});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.err, ::testing::ContainsRegex("warning: out: .* are free for checkpoints, which "
                                              "need up to"));
}

TEST(TrainErrors, JsonThatIsReadAsTextIsAWarning) {
  Workplace w;
  fs::copy_file(w.path("text.txt"), w.path("text.jsonl"));
  const std::vector<std::string> words = {"train", "run.toml", "--set", "data.train=text.jsonl"};
  const char* const kWarning =
      "'data.form' is not set: text.jsonl is read as plain text, with its keys and quotes";
  EXPECT_THAT(w.lamina(words).err, ::testing::HasSubstr(kWarning));
  std::vector<std::string> chosen = words;
  chosen.insert(chosen.end(), {"--set", "data.form=text", "--out", "chosen"});
  EXPECT_THAT(w.lamina(chosen).err, ::testing::Not(::testing::HasSubstr(kWarning)));
  EXPECT_THAT(w.lamina({"eval", "-m", "out", "--data", "text.jsonl"}).err,
              ::testing::HasSubstr("warning: text.jsonl: is read as plain text"));
}

TEST(TrainErrors, ARunDirectoryThatCannotBeMadeIsNamed) {
  Workplace w;
  w.expect({{"train", "run.toml", "--out", "text.txt/run"},
            4,
            {w.path("text.txt/run").string(), "ot a directory",
             "a part of the path is a file, not a folder; choose another path"}});
  w.expect({{"train", "run.toml", "--out", "text.txt"},
            4,
            {w.path("text.txt").string(), "a part of the path is a file"}});
  w.expect({{"train", "run.toml", "--out", "/proc/lamina"},
            4,
            {"/proc/lamina", "o such file or directory"}});
}

// The learning rate makes the model diverge; no checkpoint contains the values.
TEST(TrainErrors, ANaNStopsTheRunBeforeTheUpdate) {
  Workplace w;
  w.expect({{"train", "run.toml", "--set", "optimizer.lr=1e30"},
            3,
            {"error: step 2: the gradient of '", "nan at element ", "nothing was updated",
             "try a lower optimizer.lr"}});
  const Finished f = w.lamina({"train", "run.toml", "--set", "optimizer.lr=1e30"});
  EXPECT_EQ(f.err.find("train.dtype"), f.err.npos) << "the run is float32 already\n" << f.err;
  EXPECT_EQ(f.err.find("-nan"), f.err.npos) << f.err;
  EXPECT_TRUE(fs::is_empty(w.path("out/checkpoints")));
  std::string metrics = w.read("out/metrics.jsonl");  // contains the good step
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 1);
}

TEST(TrainErrors, ADiskThatIsFullLeavesEarlierCheckpointsAndNothingHalfWritten) {
  Workplace w;
  w.train();
  std::string before = w.read("out/checkpoints/step-00000004/model.safetensors");
  Finished f =
      run_shell("ulimit -f 40; " LAMINA_BUILD_DIR "/bin/lamina train run.toml --set train.steps=6",
                {.folder = w.path("")});
  EXPECT_EQ(f.code, 4) << f.err;
  EXPECT_THAT(f.err, ::testing::HasSubstr("model.safetensors: cannot be written after 40960 bytes: "
                                          "file too large"));
  EXPECT_EQ(w.read("out/checkpoints/step-00000004/model.safetensors"), before);
  for (const auto& entry : fs::directory_iterator(w.path("out/checkpoints")))
    EXPECT_TRUE(fs::exists(entry.path() / "manifest.json")) << entry.path();
  Finished again = w.lamina({"train", "run.toml", "--set", "train.steps=6", "--quiet"});
  EXPECT_EQ(again.code, 0) << again.err;  // with enough room it continues
}

}  // namespace
}  // namespace lamina::testing
