// A run that stops at any point, in any way, and continues ends with the same bits as an
// uninterrupted run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "backends/cpu/backend.h"
#include "core/json.h"
#include "data/load.h"
#include "support/event_reader.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "train/loop/run.h"
#include "train/loop/run_directory.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// A small text without repetitions.
std::string some_text(int sentences, int seed = 1) {
  const char* words[] = {"the", "light", "was", "upon", "a", "deep", "river", "and", "it", "rose"};
  std::string out;
  unsigned state = static_cast<unsigned>(seed);
  for (int i = 0; i < sentences; ++i) {
    for (int w = 0; w < 6; ++w) {
      state = state * 1664525u + 1013904223u;
      out += std::string(words[state >> 16 & 7]) + (w < 5 ? " " : ".\n");
    }
  }
  return out;
}

constexpr int kSteps = 6;

struct Setting {
  std::string name;
  std::string model;  // family and [model]
  std::string sets;   // more keys of [train]
  std::string optimizer = {};
  std::string checkpoint = {};
  friend std::ostream& operator<<(std::ostream& out, const Setting& s) { return out << s.name; }
};

const std::string kSmall =
    "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\nintermediate_size = 24\n"
    "num_hidden_layers = 2\nnum_attention_heads = 2\n";

const Setting kSettings[] = {
    {"llama2",
     "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\nintermediate_size = 24\n"
     "num_hidden_layers = 2\nnum_attention_heads = 2\n",
     ""},
    {"llama2_bfloat16_accumulated",
     "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\nintermediate_size = 24\n"
     "num_hidden_layers = 2\nnum_attention_heads = 2\ntie_word_embeddings = true\n",
     "dtype = \"bfloat16\"\nmicrobatch_size = 2\nremat = \"minimal\"\n"},
    {"gpt3_dropout",
     "family = \"gpt3\"\n[model]\nvocab_size = 258\nhidden_size = 16\nnum_hidden_layers = 2\n"
     "num_attention_heads = 2\nmax_position_embeddings = 32\ndropout_rate = 0.2\n",
     ""},
    {"llama2_engram",
     "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\nintermediate_size = 24\n"
     "num_hidden_layers = 3\nnum_attention_heads = 2\nengram_layers = [1, 2]\n"
     "engram_num_heads = 2\nengram_head_dim = 4\nengram_vocab_bases = [31, 37]\n",
     ""},
    {"llama2_engram_lazy",
     "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\nintermediate_size = 24\n"
     "num_hidden_layers = 3\nnum_attention_heads = 2\nengram_layers = [1, 2]\n"
     "engram_num_heads = 2\nengram_head_dim = 4\nengram_vocab_bases = [310, 370]\n",
     "dtype = \"bfloat16\"\nmicrobatch_size = 1\n", "lazy_embeddings = true\n"},
    {"llama2_muon", kSmall, "skip_spikes = 0.2\nspike_window = 4\n",
     "name = \"muon\"\nmoments = \"bfloat16\"\n"},
    {"llama2_adamw_8bit", kSmall, "clip_each = true\n", "moments = \"8bit\"\n"},
    {"llama2_in_backward", kSmall, "dtype = \"bfloat16\"\nclip_each = true\nema = 0.9\n",
     "in_backward = true\n"},
    {"llama2_lion", kSmall, "dtype = \"bfloat16\"\n", "name = \"lion\"\n"},
    {"llama2_adafactor", kSmall, "", "name = \"adafactor\"\n"},
    {"llama2_sgd", kSmall, "", "name = \"sgd\"\n"},
    {"llama2_frozen",
     "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\nintermediate_size = 24\n"
     "num_hidden_layers = 3\nnum_attention_heads = 2\n",
     "dtype = \"bfloat16\"\nmicrobatch_size = 2\n",
     "groups = [{match = \"layers.1.*\", frozen = true}, {match = \"embed.*\", frozen = true}]\n"},
};

// A run directory with its data.
class TrainingRun {
 public:
  explicit TrainingRun(const Setting& setting) {
    folder_.write("text.txt", some_text(60));
    file_ = folder_.write(
        "run.toml", setting.model +
                        "[data]\ntrain = [\"text.txt\"]\nvalidation_fraction = 0.1\n"
                        "sequence_length = 24\n[train]\nbatch_size = 4\neval_every_steps = 2\n"
                        "steps = " +
                        std::to_string(kSteps) + "\n" + setting.sets + "[optimizer]\nlr = 1e-2\n" +
                        setting.optimizer +
                        "[schedule]\nwarmup_steps = 2\n"
                        "[checkpoint]\nevery_steps = 2\nkeep = 100\n" +
                        setting.checkpoint + "[run]\nout = \"out\"\nseed = 5\n");
  }

  // Trains until the last step, or until `stop_after` steps are done; continues from a checkpoint
  // if there is one and `resume` is set: from `from`, or the newest. `is_cut`: whether a signal
  // comes during the samples of a step.
  train::LoopResult train(bool resume, int stop_after = kSteps,
                          const std::function<void(std::int64_t)>& after_step = {},
                          std::string from = "",
                          const std::function<bool(std::int64_t)>& is_cut = {}) {
    config::RunConfig c = config::load_run(file_);
    decoder::Model model = open_source(c.model);
    train::set_learning(model, c);
    std::unique_ptr<text::Tokenizer> tokenizer = data::load_tokenizer(c.data);
    data::RunData data = data::load_data(c.data, c.run.seed, *tokenizer, model.vocab_size());
    fs::create_directories(train::checkpoints_directory(c.run.out));
    const train::LoopOptions options = train::loop_options(c);
    train::Loop loop({options, model, *tokenizer, data.train, &data.validation.front(),
                      data.fingerprint, "run", "model"},
                     cpu::cpu_backend());
    if (from.empty()) from = train::newest_checkpoint(c.run.out);
    if (resume && !from.empty()) loop.resume(from);
    train::LoopEvents events;
    bool stops = false;
    events.should_stop = [&] { return stops || loop.progress().step >= stop_after; };
    if (is_cut)
      events.sample = [&](std::span<const ConstTensorRef>) {
        stops = is_cut(loop.progress().step);
        return stops ? std::nullopt
                     : std::optional(std::vector<train::Sample>{{"p", "of this step"}});
      };
    events.step = [&](const train::LoopEvents::Step& event) {
      if (after_step) after_step(event.step);
    };
    return loop.run(events);
  }

  std::string out() const { return folder_ / "out"; }
  std::string file() const { return file_; }
  const TempDir& folder() const { return folder_; }

 private:
  TempDir folder_;
  std::string file_;
};

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Compares the parts of a checkpoint that hold the state of a run; the manifest also has checksums
// of the run file, which contains the folder.
void expect_same_state(const std::string& run, const std::string& other, std::int64_t step,
                       bool same_manifest = true) {
  std::string a = train::checkpoint_path(run, step), b = train::checkpoint_path(other, step);
  for (const char* file : {"/model.safetensors", "/optimizer.safetensors", "/manifest.json"}) {
    if (!same_manifest && file == std::string("/manifest.json")) continue;
    ASSERT_TRUE(fs::exists(a + file)) << a + file;
    EXPECT_TRUE(bytes_of(a + file) == bytes_of(b + file)) << file << " of step " << step;
  }
}

// metrics.jsonl without measured times: the last line of each step and kind counts.
std::map<std::string, std::string> metrics_of(const std::string& run) {
  std::map<std::string, std::string> out;
  std::ifstream in(train::metrics_path(run));
  for (std::string line; std::getline(in, line);) {
    std::string kept = line.substr(0, line.find(",\"perf/"));
    std::size_t step = kept.find(':'), key = kept.find(",\"");
    out[kept.substr(step, key - step) + kept.substr(key, 7)] = kept;
  }
  return out;
}

class Resume : public ::testing::TestWithParam<Setting> {};

TEST_P(Resume, AtEveryStepEndsWithTheBitsOfAnUnbrokenRun) {
  TrainingRun whole(GetParam());
  train::LoopResult reference = whole.train(false);
  EXPECT_EQ(reference.progress.step, kSteps);
  int stride = GetParam().name == "llama2" ? 1 : 2;  // checkpoints are saved after even steps
  for (int stop = 1; stop < kSteps; stop += stride) {
    TrainingRun broken(GetParam());
    EXPECT_TRUE(broken.train(false, stop).stopped);
    train::LoopResult rest = broken.train(true);
    EXPECT_FALSE(rest.stopped);
    EXPECT_EQ(rest.last_loss, reference.last_loss);
    EXPECT_EQ(rest.validation_loss, reference.validation_loss);
    EXPECT_EQ(rest.progress.num_tokens, reference.progress.num_tokens);
    expect_same_state(broken.out(), whole.out(), kSteps);
    EXPECT_EQ(metrics_of(broken.out()), metrics_of(whole.out())) << "stopped after " << stop;
  }
}

TEST_P(Resume, ContinuesFromTheNewestWholeCheckpoint) {
  TrainingRun whole(GetParam()), broken(GetParam());
  whole.train(false);
  broken.train(false);
  // The last checkpoint is missing, and the leftovers of a killed process are in its place.
  fs::remove_all(train::checkpoint_path(broken.out(), kSteps));
  std::string partial = train::checkpoint_path(broken.out(), kSteps) + ".partial-999999-0";
  fs::create_directories(partial);
  std::ofstream(partial + "/model.safetensors") << "half";
  EXPECT_EQ(train::newest_checkpoint(broken.out()),
            train::checkpoint_path(broken.out(), kSteps - 2));
  broken.train(true);
  expect_same_state(broken.out(), whole.out(), kSteps);
}

INSTANTIATE_TEST_SUITE_P(All, Resume, ::testing::ValuesIn(kSettings),
                         [](const auto& test) { return test_name(test.param.name); });

TEST(Training, LeavesOutSpikesAndCountsThem) {
  const auto muon = std::ranges::find(kSettings, "llama2_muon", &Setting::name);
  TrainingRun run(*muon);
  const train::SpikeHistory spikes = run.train(false).progress.spikes;
  EXPECT_GT(spikes.num_skipped, 0);
  EXPECT_LT(spikes.num_skipped, kSteps);
  EXPECT_EQ(spikes.losses.size(), 4u);
  EXPECT_NE(bytes_of(train::metrics_path(run.out()))
                .find(fmt::format("\"train/skipped_steps\":{}", spikes.num_skipped)),
            std::string::npos);
}

TEST(Training, TheSameSeedGivesTheSameBitsAndLearns) {
  TrainingRun a(kSettings[0]), b(kSettings[0]);
  train::LoopResult first = a.train(false);
  b.train(false);
  expect_same_state(a.out(), b.out(), kSteps);
  EXPECT_EQ(metrics_of(a.out()), metrics_of(b.out()));
  EXPECT_LT(first.last_loss, 5.5);  // ln 258 = 5.55 at the start
}

// The lines of metrics.jsonl without measured times.
std::vector<std::string> metrics_lines(const std::string& run) {
  std::vector<std::string> out;
  std::ifstream in(train::metrics_path(run));
  for (std::string line; std::getline(in, line);)
    out.push_back(line.substr(0, line.find(",\"perf/")));
  return out;
}

TEST(Training, SamplesThatASignalCutsAreWrittenWhenTheRunResumes) {
  const Setting setting{"llama2", kSmall, "sample_every_steps = 3\n"};
  const auto never = [](std::int64_t) { return false; };
  TrainingRun whole(setting), broken(setting);
  EXPECT_TRUE(whole.train(false, kSteps, {}, "", never).sampled);
  for (const std::int64_t cut : {3, kSteps}) {
    const train::LoopResult stopped =
        broken.train(true, kSteps, {}, "", [&](std::int64_t step) { return step == cut; });
    EXPECT_TRUE(stopped.stopped);
    EXPECT_EQ(stopped.progress.step, cut);
    EXPECT_NE(metrics_lines(broken.out()), metrics_lines(whole.out()));
  }
  const train::LoopResult rest = broken.train(true, kSteps, {}, "", never);
  EXPECT_FALSE(rest.stopped);
  EXPECT_TRUE(rest.sampled);
  EXPECT_EQ(metrics_lines(broken.out()), metrics_lines(whole.out()));
  expect_same_state(broken.out(), whole.out(), kSteps, false);
  // The checkpoint still says that they are due.
  EXPECT_FALSE(broken.train(true, kSteps, {}, "", never).sampled);
  EXPECT_EQ(metrics_lines(broken.out()), metrics_lines(whole.out()));
}

// The numbers of metrics.jsonl in TensorBoard's form: 32-bit floats by tag and step.
EventCurves curves_of_metrics(const std::string& run) {
  EventCurves out;
  std::ifstream in(train::metrics_path(run));
  for (std::string line; std::getline(in, line);) {
    const JsonDocument json = JsonDocument::parse(line, "metrics.jsonl");
    const std::int64_t step = json.root().at("step").as_int64();
    for (const auto& [name, value] : json.root().members())
      if (name != "step") out[std::string(name)][step] = static_cast<float>(value.as_double());
  }
  return out;
}

TEST(Training, StepsSayHowLongTheyWaitForTheirRows) {
  TrainingRun run(kSettings[0]);
  run.train(false);
  const EventCurves curves = curves_of_metrics(run.out());
  for (const auto& [step, seconds] : curves.at("perf/data_seconds")) {
    EXPECT_GT(seconds, 0) << step;
    EXPECT_LT(seconds, curves.at("perf/step_seconds").at(step)) << step;
  }
}

TEST(Training, AFinishedRunHasNothingLeftToDo) {
  TrainingRun run(kSettings[0]);
  run.train(false);
  std::string before = bytes_of(train::metrics_path(run.out()));
  train::LoopResult again = run.train(true);
  EXPECT_EQ(again.progress.step, kSteps);
  EXPECT_EQ(bytes_of(train::metrics_path(run.out())), before);
}

// The run stops after an odd step, loses that checkpoint and repeats the step; then it starts
// again.
TEST(Training, TensorboardEqualsMetricsAlsoAfterRepeatedSteps) {
  TrainingRun run({"llama2", kSmall, "tensorboard = true\n"});
  const std::string folder = train::tensorboard_directory(run.out());
  run.train(false, 5);
  EXPECT_EQ(curves_of(read_event_files(folder)), curves_of_metrics(run.out()));
  fs::remove_all(train::checkpoint_path(run.out(), 5));
  run.train(true);
  const EventCurves curves = curves_of(read_event_files(folder));
  EXPECT_EQ(curves, curves_of_metrics(run.out()));
  EXPECT_EQ(curves.at("train/loss").size(), static_cast<std::size_t>(kSteps));
  EXPECT_EQ(curves.at("eval/loss").size(), 3u);
  run.train(true);  // nothing to do: no file
  EXPECT_EQ(read_event_files(folder).size(), 2u);
  run.train(false, 3);
  EXPECT_EQ(curves_of(read_event_files(folder)), curves_of_metrics(run.out()));
}

TEST(Training, ATensorboardFolderThatCannotBeWrittenChangesNothing) {
  TrainingRun whole(kSettings[0]), refused({"llama2", kSmall, "tensorboard = true\n"});
  whole.train(false);
  EXPECT_FALSE(fs::exists(train::tensorboard_directory(whole.out())));
  refused.folder().write("out/tensorboard", "in the way");
  ::testing::internal::CaptureStderr();
  refused.train(false);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, ::testing::HasSubstr("cannot be written, training continues"));
  // The first event has the file's version and the start of the session.
  EXPECT_THAT(said, ::testing::HasSubstr(" lacks its last 10 events"));
  expect_same_state(refused.out(), whole.out(), kSteps);
  EXPECT_EQ(metrics_of(refused.out()), metrics_of(whole.out()));
}

// Blocks the path of the checkpoint of a step.
std::function<void(std::int64_t)> block(const TrainingRun& run, std::int64_t blocked) {
  return [&run, blocked](std::int64_t step) {
    if (step == blocked) fs::create_directories(train::checkpoint_path(run.out(), step));
  };
}

std::vector<std::int64_t> saved_steps(const TrainingRun& run) {
  std::vector<std::int64_t> out;
  for (const train::CheckpointEntry& entry : train::list_checkpoints(run.out()))
    out.push_back(entry.step);
  return out;
}

// The run's own checkpoints were set aside for the other run's.
TEST(Training, AStopAtTheCheckpointOfAnotherRunSavesItInThisRun) {
  TrainingRun other(kSettings[0]), run(kSettings[0]);
  other.train(false, 3);
  const std::string from = train::checkpoint_path(other.out(), 3);
  EXPECT_TRUE(run.train(true, 3, {}, from).stopped);
  EXPECT_EQ(saved_steps(run), (std::vector<std::int64_t>{3}));
  expect_same_state(run.out(), other.out(), 3);
}

TEST(WriteFaults, ACheckpointThatCannotBeWrittenIsTriedAfterTheNextStep) {
  TrainingRun whole(kSettings[0]), run({"llama2", kSmall, "", "", "async = false\n"});
  whole.train(false);
  run.train(false, kSteps, block(run, 2));
  EXPECT_EQ(saved_steps(run), (std::vector<std::int64_t>{3, 4, 6}));
  expect_same_state(run.out(), whole.out(), kSteps);
}

// As after `ln -s /disk/out out`, while the disk is not mounted.
TEST(WriteFaults, ARunContinuesWhileTheTargetOfALinkIsMissing) {
  TrainingRun whole(kSettings[0]), run({"llama2", kSmall, "", "", "async = false\n"});
  whole.train(false);
  const fs::path disk = run.folder() / "disk", elsewhere = run.folder() / "elsewhere";
  fs::create_directory(disk);
  fs::create_directory_symlink(disk, run.out());
  ::testing::internal::CaptureStderr();
  run.train(false, kSteps, [&](std::int64_t step) {
    if (step == 2) fs::rename(disk, elsewhere);
    if (step == 3) fs::rename(elsewhere, disk);
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr(run.out() + " is a dangling link: restore its target"));
  EXPECT_EQ(saved_steps(run), (std::vector<std::int64_t>{3, 4, 6}));
  expect_same_state(run.out(), whole.out(), kSteps);
}

// The failure is reported when the writer has ended, at the latest before the next checkpoint.
TEST(WriteFaults, ACheckpointThatCannotBeWrittenInTheBackgroundIsAWarning) {
  TrainingRun whole(kSettings[0]), run(kSettings[0]);
  whole.train(false);
  ::testing::internal::CaptureStderr();
  run.train(false, kSteps, block(run, 2));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, ::testing::HasSubstr("no checkpoint of step 2, training continues and tries "
                                         "again after step "));
  std::vector<std::int64_t> steps = saved_steps(run);
  std::erase(steps, 3);  // missing if the second step was faster than the writer
  EXPECT_EQ(steps, (std::vector<std::int64_t>{4, 6}));
  expect_same_state(run.out(), whole.out(), kSteps);
}

TEST(Training, CheckpointsWrittenInTheBackgroundHaveTheSameBits) {
  for (const Setting& setting : kSettings) {
    SCOPED_TRACE(setting.name);
    Setting waiting = setting;
    waiting.checkpoint = "async = false\n";
    TrainingRun a(setting), b(waiting);
    a.train(false);
    b.train(false);
    for (std::int64_t step = 2; step <= kSteps; step += 2)
      expect_same_state(a.out(), b.out(), step);
    EXPECT_EQ(metrics_of(a.out()), metrics_of(b.out()));
  }
}

TEST(WriteFaults, OnlyTheLastCheckpointMustBeWritten) {
  TrainingRun run(kSettings[0]);
  EXPECT_ERROR_SAYS(run.train(false, kSteps, block(run, kSteps)), ExitCode::checkpoint,
                    "cannot be renamed to its final name: file exists");
}

TEST(Training, LazyUpdatesWantATableThatIsOnlyLookedUp) {
  Setting tied = kSettings[1];
  tied.optimizer = "lazy_embeddings = true\n";
  TrainingRun run(tied);
  EXPECT_USER_ERROR(run.train(false), ExitCode::usage,
                    run.file() +
                        ":22: optimizer.lazy_embeddings: this model has no lookup-only table, so "
                        "it would have no effect\n"
                        "  remove it; a tied token table is read whole by the head");
}

TEST(Training, OtherDataIsNotResumedOn) {
  TrainingRun run(kSettings[0]);
  run.train(false, 2);
  run.folder().write("text.txt", some_text(60, 2));
  EXPECT_USER_ERROR(run.train(true), ExitCode::data,
                    train::checkpoint_path(run.out(), 2) +
                        ": was made with other data than data.train and data.validation give now\n"
                        "  restore the files, or start a new run with another run.out");
}

const std::string kProgram = LAMINA_BUILD_DIR "/bin/lamina";

// `lamina train` with many steps and a checkpoint after each; killed after `kill_after`
// milliseconds unless it has ended. Returns the status of waitpid().
int train_many_steps(const TrainingRun& run, int kill_after = 0) {
  std::string file = run.file();
  pid_t child = fork();
  if (child == 0) {
    setenv("LAMINA_PIN", "0", 1);
    execl(kProgram.c_str(), "lamina", "train", file.c_str(), "--quiet", "--set",
          "checkpoint.every_steps=1", "--set", "train.steps=40", nullptr);
    _exit(127);
  }
  if (kill_after > 0) {
    usleep(static_cast<useconds_t>(kill_after) * 1000);
    kill(child, SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// The kill usually happens while a checkpoint is written.
TEST(Training, KilledAgainAndAgainItEndsWithTheSameBits) {
  TrainingRun whole(kSettings[0]), killed(kSettings[0]);
  ASSERT_EQ(train_many_steps(whole), 0);
  int kills = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    int status = train_many_steps(killed, 40 + 37 * attempt % 100);
    ASSERT_TRUE(status == SIGKILL || status == 0);
    kills += status == SIGKILL;
    // Every directory with the name of a checkpoint is complete.
    std::string newest = train::newest_checkpoint(killed.out());
    if (newest.empty()) continue;
    decoder::Model model = open_source(config::load_run(killed.file()).model);
    train::TrainState state(model.parameters(), DType::f32, false, cpu::cpu_backend());
    EXPECT_NO_THROW(train::load_checkpoint(newest, model, state));
  }
  EXPECT_GT(kills, 0);
  ASSERT_EQ(train_many_steps(killed), 0);
  expect_same_state(killed.out(), whole.out(), 40, false);
  EXPECT_EQ(metrics_of(killed.out()), metrics_of(whole.out()));
  for (const auto& entry : fs::directory_iterator(train::checkpoints_directory(killed.out())))
    EXPECT_FALSE(entry.path().filename().string().find("partial") != std::string::npos)
        << entry.path();
}

TEST(Training, AStopSavesAndReportsThatTheRunIsResumable) {
  TrainingRun run(kSettings[0]);
  Finished f = run_process({"timeout", "--foreground", "--preserve-status", "-s", "TERM", "1",
                            kProgram, "train", run.file(), "--set", "train.steps=1000000"},
                           {.environment = {"LAMINA_PIN=0"}});
  EXPECT_EQ(f.code, 75) << f.err;
  EXPECT_THAT(f.err, ::testing::HasSubstr("stopped after step "));
  EXPECT_NE(train::newest_checkpoint(run.out()), "");
}

}  // namespace
}  // namespace lamina::testing
