// lamina train --dry-run and --fit: their output; they write no files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "backends/cpu/backend.h"
#include "cli/trained_run.h"
#include "core/json.h"
#include "inspect/plan/train_plan.h"
#include "support/models.h"
#include "support/sanitizers.h"
#include "train/loop/run.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;
using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Planned {
  explicit Planned(const std::vector<std::string>& sets = {}) {
    file = folder.write("run.toml", tiny_run_file(folder / "out"));
    run = config::load_run(file, {sets, {}});
    model = std::make_unique<decoder::Model>(lamina::testing::open_source(run.model));
    train::set_learning(*model, run);
  }
  TempDir folder;
  std::string file;
  config::RunConfig run;
  std::unique_ptr<decoder::Model> model;
};

// The plan's numbers equal those measured in the run.
TEST(TrainPlan, HasTheBytesOfTheRunItself) {
  for (const std::vector<std::string>& sets : std::vector<std::vector<std::string>>{
           {"train.remat=none"},
           {"train.remat=full", "optimizer.name=lion"},
           {"train.dtype=bfloat16", "data.pack=false", "train.layer_metrics=true"},
           {"optimizer.name=muon", "checkpoint.async=false", "data.validation_fraction=0.0"}}) {
    Planned p(sets);
    const Backend& backend = cpu::cpu_backend();
    const inspect::TrainPlan plan = inspect::plan_training(*p.model, p.run, backend);
    train::Run run(p.run, *p.model, "none", backend);
    EXPECT_EQ(plan.memory.bytes.total(), run.loop().state_bytes()) << sets[0];
    EXPECT_EQ(plan.step_bytes, run.loop().arena_bytes()) << sets[0];
    EXPECT_EQ(plan.memory.updates + plan.step_bytes + plan.validation_bytes,
              run.loop().temporary_bytes())
        << sets[0];
    EXPECT_EQ(plan.memory.checkpoint, run.loop().checkpoint_copy_bytes()) << sets[0];
    EXPECT_EQ(plan.memory.checkpoint > 0, p.run.checkpoint.async) << sets[0];
    run.start();
    run.loop().run({});
    std::uintmax_t tensors = 0;
    for (const char* name : {"model.safetensors", "optimizer.safetensors"})
      tensors += fs::file_size(p.folder / ("out/checkpoints/step-00000004/" + std::string(name)));
    EXPECT_NEAR(static_cast<double>(plan.checkpoint_bytes), static_cast<double>(tensors),
                0.1 * static_cast<double>(tensors));  // headers: the model is very small
    EXPECT_EQ(plan.validation_bytes > 0, p.run.data.validation_fraction > 0);
    EXPECT_EQ(plan.num_checkpoints, 2);
  }
}

// A run with the proposed options fits according to the plan, for every budget.
TEST(TrainPlan, ProposalsOfFitFitByThePlan) {
  const std::vector<std::string> base = {"train.batch_size=8", "train.microbatch_size=8",
                                         "data.sequence_length=64"};
  Planned p(base);
  const Backend& backend = cpu::cpu_backend();
  const inspect::FitResult most =
      inspect::fit_training(*p.model, p.run, std::size_t{1} << 40, backend);
  ASSERT_TRUE(most.fit);
  EXPECT_EQ(most.fit->microbatch_size, 8);
  EXPECT_EQ(most.fit->recomputed_flops_per_token, 0);
  EXPECT_TRUE(most.fit->async_checkpoints);
  std::size_t budget = most.fit->memory_bytes;
  int proposals = 0;
  bool waits = false, remat = false, accumulates = false;
  while (const auto fit = inspect::fit_training(*p.model, p.run, budget, backend).fit) {
    EXPECT_LE(fit->memory_bytes, budget);
    std::vector<std::string> sets = base;
    sets.push_back(fmt::format("train.microbatch_size={}", fit->microbatch_size));
    sets.push_back("train.remat=" + fit->remat);
    sets.push_back(fmt::format("checkpoint.async={}", fit->async_checkpoints));
    const Planned again(sets);
    EXPECT_EQ(inspect::plan_training(*again.model, again.run, backend).memory_bytes(),
              fit->memory_bytes)
        << fit->microbatch_size << ", " << fit->remat;
    waits |= !fit->async_checkpoints;
    remat |= fit->recomputed_flops_per_token > 0;
    accumulates |= fit->microbatches > 1;
    budget = fit->memory_bytes - 1;
    ++proposals;
  }
  EXPECT_EQ(budget, most.smallest_bytes - 1);
  EXPECT_GT(proposals, 4);
  EXPECT_TRUE(waits && remat && accumulates);
}

// Microbatches, which updates in the backward pass exclude, are the last way to fit.
TEST(TrainPlan, FitUpdatesAfterTheBackwardPassIfNothingElseFits) {
  const std::vector<std::string> base = {"train.batch_size=8", "train.microbatch_size=8",
                                         "data.sequence_length=64", "optimizer.in_backward=true",
                                         "train.clip_norm=0"};
  Planned p(base);
  const Backend& backend = cpu::cpu_backend();
  std::size_t budget = std::size_t{1} << 40;
  std::vector<bool> in_backward;
  while (const auto fit = inspect::fit_training(*p.model, p.run, budget, backend).fit) {
    std::vector<std::string> sets = base;
    sets.push_back(fmt::format("train.microbatch_size={}", fit->microbatch_size));
    sets.push_back("train.remat=" + fit->remat);
    sets.push_back(fmt::format("checkpoint.async={}", fit->async_checkpoints));
    sets.push_back(fmt::format("optimizer.in_backward={}", fit->in_backward));
    const Planned again(sets);
    EXPECT_EQ(inspect::plan_training(*again.model, again.run, backend).memory_bytes(),
              fit->memory_bytes);
    EXPECT_TRUE(fit->in_backward ? fit->microbatches == 1 : fit->microbatches > 1);
    in_backward.push_back(fit->in_backward);
    budget = fit->memory_bytes - 1;
  }
  EXPECT_TRUE(in_backward.front());
  EXPECT_FALSE(in_backward.back());
  EXPECT_TRUE(std::ranges::is_sorted(in_backward, std::greater<>()));
  EXPECT_EQ(inspect::fit_training(*p.model, p.run, 1, backend).smallest_bytes, budget + 1);
}

TEST(TrainPlan, DryRunPrintsAndWritesNothing) {
  const TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
  const Finished f = lamina_program({"train", run, "--dry-run"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("4 steps of 64 tokens (2 x 1 rows of 32), 256 in all"));
  EXPECT_THAT(f.out, HasSubstr("  temporaries of a step "));
  EXPECT_THAT(f.out, HasSubstr("  while a checkpoint is written "));
  EXPECT_THAT(f.out, HasSubstr("at most 2 at once: "));
  EXPECT_THAT(f.out, ContainsRegex("\ndata    1 file, [0-9.]+ KiB: [0-9,]+ tokens, read [0-9.]+ "
                                   "times\n"));
  EXPECT_THAT(f.out, HasSubstr("  tokens of the data "));
  EXPECT_FALSE(fs::exists(folder / "out"));
  const Finished json = lamina_program({"train", run, "--dry-run", "--json"});
  const JsonDocument numbers = JsonDocument::parse(json.out, "plan");
  std::int64_t sum = 0;
  for (const char* key :
       {"weight_bytes", "copy_bytes", "moment_bytes", "gradient_bytes", "optimizer_temporary_bytes",
        "checkpoint_copy_bytes", "exchange_bytes", "step_bytes", "validation_bytes",
        "transfer_bytes", "data_bytes", "program_bytes"})
    sum += numbers.root().at(key).as_int64();
  EXPECT_EQ(numbers.root().at("memory_bytes").as_int64(), sum);
  EXPECT_EQ(lamina_program({"train", run, "--dry-run", "--set", "train.remat=nothing"}).code, 2);
  const Finished profile = lamina_program({"train", run, "--dry-run", "--profile", "steps=1:2"});
  EXPECT_EQ(profile.code, 2);
  EXPECT_THAT(profile.err, HasSubstr("--profile: cannot be combined with --dry-run or --fit"));
}

TEST(TrainPlan, ADryRunRefusesDataThatTheRunWouldRefuse) {
  const TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
  const std::string empty = folder.write("empty.txt", " \n"), few = folder.write("few.txt", "ten");
  for (const bool dry : {true, false}) {
    const auto error_of = [&](std::vector<std::string> more) {
      std::vector<std::string> words = {"train", run, "--set", "data.validation_fraction=0"};
      if (dry) words.push_back("--dry-run");
      words.insert(words.end(), more.begin(), more.end());
      const Finished f = lamina_program(words);
      EXPECT_NE(f.code, 0);
      EXPECT_EQ(f.out, "");
      return f.err;
    };
    EXPECT_THAT(error_of({"--set", "data.train=" + empty}),
                HasSubstr("empty.txt: the file contains no text"));
    EXPECT_THAT(error_of({"--set", "data.train=" + few}),
                HasSubstr("few.txt: the text has 5 tokens in total; one row needs 33"));
    EXPECT_THAT(error_of({"--set", "model.vocab_size=200"}),
                HasSubstr("model.vocab_size: is 200; the tokenizer has 258 ids"));
  }
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(TrainPlan, ADryRunWarnsAsTheRunDoes) {
  const TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file("/proc/none"));
  const Finished f = lamina_program({"train", run, "--dry-run", "--set", "schedule.warmup_steps=10",
                                     "--set", "lora.rank=2", "--set", "train.steps=80000"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("/proc/none: 0 B are free for checkpoints, which need up to "));
  EXPECT_THAT(f.err, HasSubstr("'lora.rank' is 2, and 'train.from' is missing"));
  EXPECT_THAT(f.err, Not(HasSubstr("'schedule.warmup_steps'")));
  EXPECT_THAT(f.out, ContainsRegex("tokens, read [0-9]+0 times\n"));
  const Finished warmup =
      lamina_program({"train", run, "--dry-run", "--set", "schedule.warmup_steps=10"});
  EXPECT_THAT(warmup.err, HasSubstr("'schedule.warmup_steps' is 10, more than 'train.steps' = 4"));
}

// Checkpoints are synchronous: the copy of an asynchronous one is an upper bound that is rarely
// reached. The slack of 32 MiB covers code that only steps run and memory that the heap keeps after
// compiling.
TEST(TrainPlan, ThePeakEqualsThePlan) {
  LAMINA_SKIP_IF_SANITIZED("its shadow memory is in the peak");
  constexpr double kShare = 0.03, kOfSteps = 32 << 20;
  for (const std::vector<std::string>& sets : std::vector<std::vector<std::string>>{
           {"model.hidden_size=256", "model.intermediate_size=704", "model.num_hidden_layers=12",
            "train.batch_size=16", "train.microbatch_size=16"},
           {"model.hidden_size=512", "model.intermediate_size=1408", "model.num_hidden_layers=8",
            "train.batch_size=4", "train.microbatch_size=2"},
           {"model.hidden_size=768", "model.intermediate_size=2048", "model.num_hidden_layers=6",
            "train.dtype=bfloat16", "optimizer.moments=bfloat16", "train.batch_size=2",
            "train.microbatch_size=2"}}) {
    const TempDir folder;
    std::vector<std::string> words = {"train",
                                      folder.write("run.toml", tiny_run_file(folder / "out"))};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    words.insert(words.end(), {"--set", "checkpoint.async=false", "-t", "2"});
    std::vector<std::string> plan_words = words;
    plan_words.insert(plan_words.end(), {"--dry-run", "--json"});
    const Finished plan = lamina_program(plan_words), run = lamina_program(words);
    ASSERT_EQ(plan.code, 0) << plan.err;
    ASSERT_EQ(run.code, 0) << run.err;
    const auto planned = static_cast<double>(
        JsonDocument::parse(plan.out, "plan").root().at("memory_bytes").as_int64());
    EXPECT_NEAR(static_cast<double>(run.peak_bytes), planned, std::max(kShare * planned, kOfSteps))
        << sets[0];
  }
}

TEST(TrainPlan, FitPrintsLinesThatARunFileTakes) {
  const TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
  const Finished f = lamina_program({"train", run, "--fit"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("[train]\nbatch_size = 2\nmicrobatch_size = 2\nremat = \""));
  EXPECT_FALSE(fs::exists(folder / "out"));
  const Finished json = lamina_program({"train", run, "--fit", "--json"});
  EXPECT_EQ(JsonDocument::parse(json.out, "fit").root().at("microbatch_size").as_int64(), 2);
  const Finished both = lamina_program({"train", run, "--fit", "--dry-run"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--fit: cannot be combined with --dry-run"));
}

TEST(TrainPlan, FitCountsTokensInMemory) {
  const TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
  const auto memory = [&](const std::string& data) {
    const Finished f = lamina_program({"train", run, "--fit", "--json", "--set", "data.store=none",
                                       "--set", "data.train=[\"" + data + "\"]"});
    EXPECT_EQ(f.code, 0) << f.err;
    return JsonDocument::parse(f.out, "fit").root().at("memory_bytes").as_int64();
  };
  constexpr std::int64_t kMore = std::int64_t{32} << 20;
  const std::string line = std::string(63, 'a') + "\n";
  std::string text;
  for (std::int64_t i = 0; i < kMore; i += std::ssize(line)) text += line;
  // Four bytes for each byte of text.
  EXPECT_GT(memory(folder.write("large.txt", text)),
            memory(folder.write("small.txt", line)) + 3 * kMore);
}

TEST(TrainPlan, AModelThatFitsNowhereIsAnErrorWithBothSizes) {
  const TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
  const Finished f =
      lamina_program({"train", run, "--fit", "--set", "model.hidden_size=65536", "--set",
                      "model.intermediate_size=262144", "--set", "model.num_hidden_layers=100"});
  EXPECT_EQ(f.code, 7) << f.err;
  EXPECT_EQ(f.out, "");
  EXPECT_THAT(f.err, ContainsRegex("run.toml: does not fit: it needs at least [0-9.]+ TiB, and may "
                                   "use [0-9.]+ [GM]iB of [0-9.]+ [GM]iB available"));
  EXPECT_THAT(f.err, HasSubstr("\n  use fewer trained parameters ([lora]), or shorter rows "
                               "(data.sequence_length), or moments in fewer bytes "
                               "(optimizer.moments)\n"));
  const Finished small =
      lamina_program({"train", run, "--fit", "--set", "model.hidden_size=65536", "--set",
                      "model.intermediate_size=262144", "--set", "model.num_hidden_layers=100",
                      "--set", "lora.rank=1", "--set", "optimizer.moments=8bit"});
  EXPECT_EQ(small.code, 7) << small.err;
  EXPECT_THAT(small.err, HasSubstr("\n  use shorter rows (data.sequence_length)\n"));
}

}  // namespace
}  // namespace lamina::cli
