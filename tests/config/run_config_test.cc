// Run files: values, origins, precedence, and the message of every refusal.
#include "config/run_config.h"

#include <gtest/gtest.h>

#include "config/listing.h"
#include "config/refusal.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::config {
namespace {

class RunFile : public ::testing::Test {
 protected:
  // Writes the text after a head of 5 lines that makes the run file complete.
  std::string write(const std::string& text) {
    return write_whole(
        "family = \"simple\"\n[model]\nhidden_size = 8\n[data]\ntrain = [\"a.txt\"]\n" + text);
  }

  std::string write_whole(const std::string& text, const std::string& name = "run.toml") {
    return folder_.write(name, text);
  }

  std::string in_folder(const std::string& name) { return folder_ / name; }

  testing::TempDir folder_;
};

TEST_F(RunFile, Example) {
  RunConfig c = load_run(write("[train]\nsteps = 40\n"), {{"optimizer.lr=1e-3"}, {}});
  EXPECT_EQ(c.train.steps, 40);
  EXPECT_EQ(c.optimizer.lr, 1e-3);
  EXPECT_EQ(c.values.where("train.steps"), in_folder("run.toml:7"));
  EXPECT_EQ(c.values.where("optimizer.lr"), "--set optimizer.lr=1e-3");
  EXPECT_EQ(c.values.where("train.batch_size"), "default");
}

TEST_F(RunFile, EnvironmentOverridesFileAndSetOverridesEnvironment) {
  std::string path = write("[train]\nsteps = 1\nbatch_size = 1\nlog_every_steps = 1\n");
  RunConfig c = load_run(path, {{"train.log_every_steps=3"},
                                {"LAMINA_TRAIN__BATCH_SIZE=2", "LAMINA_TRAIN__LOG_EVERY_STEPS=2",
                                 "LAMINA_PLUGIN_PATH=/x", "HOME=/x"}});
  EXPECT_EQ(c.train.steps, 1);
  EXPECT_EQ(c.train.batch_size, 2);
  EXPECT_EQ(c.train.log_every_steps, 3);
  EXPECT_EQ(c.values.where("train.batch_size"), "LAMINA_TRAIN__BATCH_SIZE");
}

TEST_F(RunFile, LaterSetOverridesEarlierSet) {
  EXPECT_EQ(load_run(write(""), {{"train.steps=1", "train.steps=2"}, {}}).train.steps, 2);
}

TEST_F(RunFile, MembersOfATypedTableAreNotTheTextOfTheTable) {
  const std::string path = write("");
  EXPECT_EQ(load_run(path, {{"run.name=2024"}, {}}).run.name, "2024");
  EXPECT_EQ(load_run(path, {{"run={name=\"2024\"}"}, {}}).run.name, "2024");
  EXPECT_ERROR_SAYS(load_run(path, {{"run={name=2024}"}, {}}), 2,
                    "'run.name' must be a string, got 2024");
}

// other/link leads to real/sub, so other/link/.. is real.
TEST_F(RunFile, PathsAboveALinkResolveAsInTheSystem) {
  write_whole("real", "real/data.txt");
  write_whole("other", "other/data.txt");
  std::filesystem::create_directory(in_folder("real/sub"));
  std::filesystem::create_directory_symlink("../real/sub", in_folder("other/link"));
  const std::string run =
      write("validation = [\"other/./link/../data.txt\", \"other/../other/data.txt\"]\n");
  RunConfig c = load_run(run);
  EXPECT_EQ(c.data.validation,
            (std::vector{in_folder("other/link/../data.txt"), in_folder("other/data.txt")}));
  // Written by training, read from elsewhere.
  Table model;
  model.add({"hidden_size", 8, {}});
  const std::string written = write_whole(resolved_run_file(c, "simple", model), "out/config.toml");
  EXPECT_EQ(load_written_run(written).data.validation, c.data.validation);
  EXPECT_TRUE(differences(c, load_written_run(written)).empty());
  // A run file in a folder that is a link.
  write_whole("family = \"simple\"\n[model]\nhidden_size = 8\n[data]\ntrain = \"../data.txt\"\n",
              "real/sub/run.toml");
  c = load_run(in_folder("other/link/run.toml"));
  EXPECT_TRUE(std::filesystem::equivalent(c.data.train.at(0), in_folder("real/data.txt")));
}

TEST_F(RunFile, MovedPathsAboveALinkResolveAsInTheSystem) {
  write_whole("real", "now/real/data.txt");
  write_whole("other", "now/other/data.txt");
  std::filesystem::create_directory(in_folder("now/real/sub"));
  std::filesystem::create_directory_symlink("../real/sub", in_folder("now/other/link"));
  const std::string was = in_folder("was");
  const std::string written = write("validation = \"" + was + "/other/link/../data.txt\"\n" +
                                    "[run]\nout = \"" + was + "/run\"\n");
  EXPECT_EQ(load_written_run(written, in_folder("now/run")).data.validation,
            std::vector{in_folder("now/other/link/../data.txt")});
}

TEST_F(RunFile, RelativePathsStartAtTheFolderOfTheFile) {
  RunConfig c = load_run(write(""), {{"data.validation=[\"b.txt\"]"}, {}});
  EXPECT_EQ(c.data.train, std::vector{in_folder("a.txt")});
  EXPECT_EQ(c.data.validation, std::vector<std::string>{"b.txt"});
  EXPECT_EQ(c.data.tokenizer, "byte");
}

TEST_F(RunFile, ARunDirectoryIsTheSameInEverySpelling) {
  for (const std::string out :
       {"runs/a", "runs/a/", "runs/a/.", "runs/./a//./", "runs/b/../a", "runs/a/b/.."}) {
    SCOPED_TRACE(out);
    for (const RunConfig& c : {load_run(write("[run]\nout = \"" + out + "\"\n")),
                               load_run(write(""), {{"run.out=" + in_folder(out)}, {}})}) {
      EXPECT_EQ(c.run.out, in_folder("runs/a"));
      EXPECT_EQ(c.values.find("run.out")->value, Value(in_folder("runs/a")));
      EXPECT_EQ(c.data.store, in_folder("runs/tokens"));
    }
  }
  for (const char* here : {"run.out=.", "run.out=./"}) {
    const RunConfig c = load_run(write(""), {{here}, {}});
    EXPECT_EQ(c.run.out, ".");
    EXPECT_EQ(c.data.store, "../tokens");
  }
}

TEST_F(RunFile, TableOfTagsTakesAnyName) {
  std::string path = write(
      "[train]\nremat = \"custom\"\n[train.remat_tags]\ncontext = \"device\"\n"
      "mlpwo = \"offload\"\n");
  RunConfig c = load_run(path, {{"train.remat_tags.mlpwo=remat"}, {}});
  EXPECT_EQ(c.train.remat_tags,
            (std::map<std::string, std::string>{{"context", "device"}, {"mlpwo", "remat"}}));
  EXPECT_EQ(c.values.where("train.remat_tags.context"), in_folder("run.toml:9"));
}

TEST_F(RunFile, UnknownKeyIsRefusedWithLineAndSuggestion) {
  EXPECT_USER_ERROR(load_run(write("[train]\nstpes = 3\n")), 2,
                    in_folder("run.toml:7: unknown key 'train.stpes'\n"
                              "  did you mean 'train.steps'?"));
}

TEST_F(RunFile, UnknownKeyOfSetIsRefusedWithSuggestion) {
  EXPECT_USER_ERROR(load_run(write(""), {{"train.stepz=3"}, {}}), 2,
                    "--set train.stepz=3: unknown key 'train.stepz'\n"
                    "  did you mean 'train.steps'?");
}

TEST_F(RunFile, UnknownKeyOfAnotherProgramHasTheNameOfOurs) {
  const std::pair<const char*, const char*> cases[] = {
      {"data.seq_len", "did you mean 'data.sequence_length'?"},
      {"train.lr", "did you mean 'optimizer.lr'?"},
      {"train.seed", "did you mean 'run.seed'?"},
      {"train.sample_every", "did you mean 'train.sample_every_steps'?"},
      {"train.eval_steps", "did you mean 'train.eval_every_steps'?"},
      {"train.grad_clip", "did you mean 'train.clip_norm'?"},
      {"train.warmup_steps", "did you mean 'schedule.warmup_steps'?"},
      {"checkpoint.every", "did you mean 'checkpoint.every_steps'?"},
      {"schedule.min_lr", "did you mean 'schedule.final_fraction'?"},
      {"optimizer.decay", "did you mean 'optimizer.weight_decay'?"},
      {"data.val", "did you mean 'data.validation'?"},
      {"data.path", "did you mean 'data.train'?"},
      {"per_device_train_batch_size", "did you mean 'train.microbatch_size'?"},
      {"train.gradient_accumulation_steps", "did you mean 'train.microbatch_size'?"},
      {"train.gradient_checkpointing", "did you mean 'train.remat'?"},
      {"bf16", "did you mean 'train.dtype'?"},
      {"warmup_ratio", "did you mean 'schedule.warmup_steps'?"},
      {"train.logging_steps", "did you mean 'train.log_every_steps'?"},
      {"lora.r", "did you mean 'lora.rank'?"},
      {"lora.lora_alpha", "did you mean 'lora.alpha'?"},
      {"optimizer.adam_beta1", "did you mean 'optimizer.beta1'?"},
      {"adam_beta2", "did you mean 'optimizer.beta2'?"},
      {"num_hidden_layers", "did you mean 'model.num_hidden_layers'?"},
      {"n_layers", "did you mean 'model.num_hidden_layers'?"},
      {"train.zzz", "`lamina config explain train` lists the keys"},
  };
  for (const auto& [key, says] : cases)
    EXPECT_ERROR_SAYS(load_run(write(""), {{std::string(key) + "=3"}, {}}), 2, says);
}

TEST_F(RunFile, ATypeOfAnotherNameIsSuggestedAndAnotherTypeIsNot) {
  EXPECT_USER_ERROR(
      load_run(write(""), {{"train.dtype=fp32"}, {}}), 2,
      "--set train.dtype=fp32: 'train.dtype' must be \"float32\" or \"bfloat16\", got "
      "\"fp32\"\n  did you mean \"float32\"?");
  EXPECT_USER_ERROR(load_run(write(""), {{"train.dtype=float16"}, {}}), 2,
                    "--set train.dtype=float16: 'train.dtype' must be \"float32\" or \"bfloat16\", "
                    "got \"float16\"");
  EXPECT_USER_ERROR(load_run(write(""), {{"preference.loss=simpo"}, {}}), 2,
                    "--set preference.loss=simpo: 'preference.loss' must be \"dpo\", \"ipo\" or "
                    "\"orpo\", got \"simpo\"");
}

TEST_F(RunFile, UnknownKeyIsComparedWithKeysOfOtherSectionsAndWithDescriptions) {
  EXPECT_USER_ERROR(load_run(write(""), {{"steps=3"}, {}}), 2,
                    "--set steps=3: unknown key 'steps'\n"
                    "  did you mean 'train.steps' or 'schedule.steps'?");
  EXPECT_ERROR_SAYS(load_run(write("[optimizer]\nlearning_rate = 3\n")), 2,
                    "did you mean 'optimizer.lr'?");
  EXPECT_ERROR_SAYS(load_run(write("[schedule]\nkind = \"cos\"\n")), 2, "did you mean \"cosine\"?");
  EXPECT_USER_ERROR(
      load_run(write(""), {{"lora.adapters=3"}, {}}), 2,
      "--set lora.adapters=3: unknown key 'lora.adapters'\n"
      "  the keys of [lora] are rank, alpha, target_modules, dropout, rslora, use_dora");
}

TEST_F(RunFile, AnAlphaOfZeroIsNotTheRank) {
  EXPECT_USER_ERROR(load_run(write("[lora]\nrank = 4\nalpha = 0\n")), 2,
                    in_folder("run.toml:8: 'lora.alpha' must be a number, greater than 0, got 0"));
}

TEST_F(RunFile, AnOverrideMaySwitchOffWhatOtherSettingsNeed) {
  const std::string file = write(
      "validation_fraction = 0.1\n[train]\nsample_every_steps = 5\nsample_tokens = 2\n"
      "clip_each = true\n[checkpoint]\nkeep_best = true\n[schedule]\nkind = "
      "\"linear\"\nfinal_fraction = 0.5\n"
      "[lora]\nrank = 4\nalpha = 8.0\n");
  for (const char* off :
       {"train.sample_every_steps=0", "train.clip_norm=0", "data.validation_fraction=0",
        "schedule.kind=\"constant\"", "lora.rank=0"}) {
    SCOPED_TRACE(off);
    static_cast<void>(load_run(file, {{off}, {}}));
    EXPECT_ERROR_SAYS(
        load_run(file, {{off, "lora.alpha=4.0", "train.sample_tokens=3", "train.clip_each=true",
                         "checkpoint.keep_best=true", "schedule.final_fraction=0.2"},
                        {}}),
        2, "");
  }
}

TEST_F(RunFile, SettingsWithoutAnEffectAreRefused) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"data.field=\"t\"", "data.form=\"jsonl\"", "'data.field' requires data.form"},
      {"data.document_separator=\"line\"", "data.form=\"text\"", ""},
      {"data.bad_records=\"skip\"", "data.form=\"jsonl\"", "'data.bad_records' requires data.form"},
      {"schedule.final_fraction=0.5", "schedule.kind=\"linear\"", ""},
      {"train.spike_window=8", "train.skip_spikes=3.0",
       "'train.spike_window' has no effect without 'train.skip_spikes'\n"
       "  set train.skip_spikes, or remove it"},
      {"train.clip_each=true", "train.clip_norm=1.0", ""},
      {"checkpoint.keep_best=true", "data.validation=[\"v.txt\"]",
       "'checkpoint.keep_best' has no effect without 'data.validation_fraction' or "
       "'data.validation'\n  set data.validation_fraction or data.validation, or remove it"},
      {"train.eval_weights=\"model\"", "data.validation_fraction=0.1",
       "'train.eval_weights' has no effect without 'data.validation_fraction' or "
       "'data.validation'"},
      {"train.sample_tokens=2", "train.sample_every_steps=5",
       "'train.sample_tokens' has no effect without 'train.sample_every_steps'"},
  };
  const std::string file = write("");
  for (const auto& [set, enabling, says] : cases) {
    SCOPED_TRACE(set);
    static_cast<void>(load_run(file, {{set, enabling}, {}}));
    if (*says) EXPECT_ERROR_SAYS(load_run(file, {{set}, {}}), 2, says);
  }
  static_cast<void>(load_run(file, {{"checkpoint.keep_best=false", "train.clip_each=false"}, {}}));
  EXPECT_ERROR_SAYS(load_run(file, {{"train.clip_each=true", "train.clip_norm=0"}, {}}), 2,
                    "'train.clip_each' has no effect without 'train.clip_norm'");
  EXPECT_ERROR_SAYS(
      load_run(file, {{"schedule.final_fraction=0.5", "schedule.kind=\"constant\""}, {}}), 2,
      "'schedule.final_fraction' requires schedule.kind = \"cosine\"");
  EXPECT_ERROR_SAYS(
      load_run(file, {{"data.document_separator=\"line\"", "data.form=\"jsonl\""}, {}}), 2,
      "'data.document_separator' requires data.form = \"text\"");
}

TEST_F(RunFile, LabelSmoothingWithoutALabelLossIsRefused) {
  const std::string file =
      write("[train]\nlabel_smoothing = 0.3\n[distillation]\nteacher = \"t\"\n");
  static_cast<void>(load_run(file, {{"distillation.alpha=1.0"}, {}}));  // over a run file
  static_cast<void>(load_run(file, {{"distillation.alpha=0.9", "train.label_smoothing=0.2"}, {}}));
  EXPECT_ERROR_SAYS(load_run(file, {{"distillation.alpha=1.0", "train.label_smoothing=0.2"}, {}}),
                    2,
                    "--set train.label_smoothing=0.2: 'train.label_smoothing' has no effect with "
                    "'distillation.alpha' = 1, which gives the label loss the weight 0\n"
                    "  lower distillation.alpha, or remove it");
}

TEST_F(RunFile, AScheduleWithoutItsPeakIsRefused) {
  const std::string file = write("[train]\nsteps = 100\n[schedule]\nwarmup_steps = 8\n");
  for (const char* kind : {"cosine", "linear", "constant", "inverse_sqrt"}) {
    const std::string set = fmt::format("schedule.kind=\"{}\"", kind);
    static_cast<void>(load_run(file, {{set, "schedule.steps=8"}, {}}));
    static_cast<void>(load_run(file, {{set, "train.steps=5"}, {}}));  // a trial
    EXPECT_ERROR_SAYS(load_run(file, {{set, "schedule.steps=7"}, {}}), 2,
                      "run.toml:9: 'schedule.warmup_steps' is 8, more than 'schedule.steps' = 7: "
                      "the learning rate never reaches its peak\n"
                      "  raise schedule.steps, or lower schedule.warmup_steps");
  }
  const std::string wsd = "schedule.kind=\"wsd\"";
  static_cast<void>(load_run(file, {{wsd, "schedule.warmup_steps=90"}, {}}));
  EXPECT_ERROR_SAYS(load_run(file, {{wsd, "schedule.warmup_steps=91"}, {}}), 2,
                    "'schedule.warmup_steps' = 91 and 'schedule.decay_steps' = 10 (default) exceed "
                    "the 100 steps of the schedule");
  EXPECT_ERROR_SAYS(load_run(file, {{wsd, "schedule.decay_steps=93"}, {}}), 2,
                    "--set schedule.decay_steps=93: 'schedule.warmup_steps' = 8 and "
                    "'schedule.decay_steps' = 93 exceed the 100 steps of the schedule");
}

TEST_F(RunFile, UnknownVariableIsRefusedWithSuggestion) {
  EXPECT_USER_ERROR(load_run(write(""), {{}, {"LAMINA_TRAIN__STEPZ=3"}}), 2,
                    "LAMINA_TRAIN__STEPZ: unknown key 'train.stepz'\n"
                    "  did you mean 'train.steps'?");
}

TEST_F(RunFile, UnknownSectionIsReportedOnce) {
  EXPECT_USER_ERROR(load_run(write("[trian]\nsteps = 3\nbatch_size = 4\n")), 2,
                    in_folder("run.toml:6: unknown section [trian]\n"
                              "  did you mean [train]?"));
}

TEST_F(RunFile, EmptyUnknownSectionIsRefused) {
  EXPECT_USER_ERROR(
      load_run(write("[dpo]\n")), 2,
      in_folder("run.toml:6: unknown section [dpo]\n"
                "  expected one of [run], [model], [data], [train], [train.remat_tags], "
                "[lora], [preference], [distillation], [optimizer], [schedule], "
                "[checkpoint]"));
}

TEST_F(RunFile, KeysDifferingInCaseAreUnknown) {
  EXPECT_ERROR_SAYS(load_run(write("[train]\nSteps = 3\n")), 2,
                    "unknown key 'train.Steps'\n  did you mean 'train.steps'?");
}

TEST_F(RunFile, QuotedDottedKeyIsNotThatKey) {
  EXPECT_ERROR_SAYS(load_run(write_whole("\"train.steps\" = 3\n")), 2,
                    "unknown key '\"train.steps\"'\n  did you mean 'train.steps'?");
}

TEST_F(RunFile, EveryMistakeIsReportedAtOnce) {
  EXPECT_USER_ERROR(
      load_run(write_whole("[train]\nsteps = 0\nstpes = 3\n[optimizer]\nbeta1 = 1\n")), 2,
      in_folder("run.toml:3: unknown key 'train.stpes'\n"
                "  did you mean 'train.steps'?\n  also: ") +
          in_folder("run.toml: missing key 'data.train'\n"
                    "    Training text: files, folders or globs, eg: train = [\"corpus.txt\"]. A "
                    "folder means every file below it; names that begin with a dot are skipped.\n"
                    "  also: ") +
          in_folder("run.toml:2: 'train.steps' must be an integer, at least 1 and at most "
                    "1000000000000, got 0\n  also: ") +
          in_folder("run.toml:5: 'optimizer.beta1' must be a number, at least 0 and less than 1, "
                    "got 1"));
}

TEST_F(RunFile, WrongValuesAreRefusedInWords) {
  const Refusal cases[] = {
      {"[train]\nsteps = \"ten\"",
       "run.toml:7: 'train.steps' must be an integer, at least 1 and at "
       "most 1000000000000, got \"ten\" (a string)"},
      {"[train]\nsteps = 3.0", "got 3.0 (a number)"},
      {"[train]\nsteps = true", "got true (a boolean)"},
      {"[train]\nsteps = [1, 2]", "got [1, 2] (a list)"},
      {"[train]\nscan_layers = 1",
       "run.toml:7: 'train.scan_layers' must be true or false, got 1 (an integer)"},
      {"[train]\ndtype = \"bfloat61\"",
       "run.toml:7: 'train.dtype' must be \"float32\" or \"bfloat16\", got \"bfloat61\"\n"
       "  did you mean \"bfloat16\"?"},
      {"[train]\ndtype = \"bf16\"", "did you mean \"bfloat16\"?"},
      {"[train]\ndtype = 16", "must be \"float32\" or \"bfloat16\", got 16 (an integer)"},
      {"[optimizer]\nlr = nan", "'optimizer.lr' must be a finite number, greater than 0, got nan"},
      {"[optimizer]\nlr = -inf", "got -inf"},
      {"[optimizer]\nlr = -0.0", "must be a number, greater than 0, got -0.0"},
      {"[optimizer]\nname = 2024-01-01",
       "run.toml:7: 'optimizer.name' is a date or time; expected a number, a string, a boolean or "
       "a list of them"},
      {"[[train]]\nsteps = 1", "run.toml:6: 'train' is a section; write its keys below [train]"},
      {"[[optimizer.groups]]\nmatch = \"embed.*\"\nfrozn = true",
       "run.toml:6: unknown key 'frozn' in 'optimizer.groups[0]'\n  did you mean 'frozen'?"},
      {"[optimizer]\ngroups = [{match = \"*\", frozen = true}, {role = \"norms\"}]",
       "run.toml:7: 'optimizer.groups[1].role' must be \"weight\", \"bias\", \"norm\", "
       "\"embedding\", \"head\", \"router\", \"scalar\" or \"conv\", got \"norms\"\n"
       "  did you mean \"norm\"?"},
      {"[optimizer]\ngroups = [\"embed.*\"]",
       "'optimizer.groups[0]' must be a table, got \"embed.*\" (a string)"},
      {"[optimizer.groups]\nmatch = \"embed.*\"",
       "run.toml:6: 'optimizer.groups' is a list of tables; write [[optimizer.groups]], with "
       "double "
       "brackets, once for each of them"},
      {"[train]\nsteps = [{a = 1}]", "got [{a = 1}] (a list)"},
      {"[run]\nname = [{a = 1}]", "got [{a = 1}] (a list)"},
      {"[run]\nthreads = 0", "must be an integer, at least 1 and at most 1024, got 0"},
      {"[run]\nseed = -1", "'run.seed' must be an integer, at least 0, got -1"},
      {"[run]\nout = \"~/runs\"",
       "run.toml:7: 'run.out' must not begin with ~, got \"~/runs\"\n"
       "  only a shell replaces ~, and only at the start of a word: write "},
      {"[run]\nout = \"~bob/runs\"",
       "run.toml:7: 'run.out' must not begin with ~, got \"~bob/runs\"\n"
       "  only a shell replaces ~bob, and only at the start of a word: write the path of that home "
       "directory, or ./~bob/runs for a file here"},
      {"[run]\nout = \"\"", "run.toml:7: 'run.out' must be a path, got \"\""},
      {"[data.train]\nx = 1",
       "run.toml:6:1: not TOML 1.0: table header: cannot redefine existing array 'data.train' as "
       "table\n  [data.train]\n  ^"},
      {"[train.steps]\nx = 1",
       "run.toml:6: 'train.steps' is a key, not a section; write "
       "train.steps = ...\n  it must be an integer, at least 1 and at most 1000000000000"},
      {"[train]\nbatch_size = 6\nmicrobatch_size = 4",
       "run.toml:8: 'train.microbatch_size' is 4, which does not divide 'train.batch_size' = 6\n"
       "  use 1, 2, 3 or 6"},
  };
  for (const Refusal& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_ERROR_SAYS(load_run(write(c.text)), 2, c.says);
  }
}

// Both forms of a list of tables, and the form in the resolved file.
TEST_F(RunFile, HasListsOfTables) {
  const std::string resolved =
      "groups = [{match = \"embed.*\", frozen = true}, {role = \"norm\", lr_scale = 0.5}]";
  const RunConfig blocks =
                      load_run(write("[[optimizer.groups]]\nmatch = \"embed.*\"\nfrozen = true\n"
                                     "[[optimizer.groups]]\nrole = \"norm\"\nlr_scale = 0.5")),
                  line = load_run(write("[optimizer]\n" + resolved)),
                  set = load_run(write(""), {{"optimizer.groups=" + resolved.substr(9)}, {}});
  for (const RunConfig* c : {&blocks, &line, &set}) {
    ASSERT_EQ(c->optimizer.groups.size(), 2u);
    EXPECT_EQ(c->optimizer.groups[0].match, "embed.*");
    EXPECT_EQ(c->optimizer.groups[0].frozen, true);
    EXPECT_EQ(c->optimizer.groups[0].lr_scale, std::nullopt);
    EXPECT_EQ(c->optimizer.groups[1].role, "norm");
    EXPECT_EQ(c->optimizer.groups[1].lr_scale, 0.5);
    EXPECT_THAT(to_toml(c->values.entries()), ::testing::HasSubstr("\n" + resolved + " # "));
  }
  EXPECT_EQ(to_json(Value(List{Members{{"match", "*"}, {"lr_scale", 2}}})),
            "[{\"match\": \"*\", \"lr_scale\": 2}]");
}

}  // namespace
}  // namespace lamina::config
