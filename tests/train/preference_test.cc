// DPO, IPO and ORPO: compared with the equations in f64 from separately computed log probabilities,
// gradients compared with finite differences; and runs on pairs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "model/load.h"
#include "support/expect_error.h"
#include "support/published_model.h"
#include "support/run_of_file.h"
#include "support/slope.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using train::AuxScalar;

constexpr std::int64_t kTokens = 64;  // room for two pairs

// `rejected`: a text whose tokens differ from the other texts'.
std::string pairs_text(const std::string& rejected = "no") {
  std::string out;
  for (int i = 0; i < 24; ++i) {
    const std::string n = std::to_string(i);
    out += "{\"prompt\": \"say " + n + ": \", \"chosen\": \"yes" + n + "\", \"rejected\": \"" +
           rejected + "\"}\n";
  }
  return out;
}

// A run on pairs. `more`: sections after [train].
std::string write_run(const TempDir& folder, const std::string& more = "") {
  folder.write("pairs.jsonl", pairs_text());
  return folder.write("run.toml",
                      "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\n"
                      "intermediate_size = 24\nnum_hidden_layers = 2\nnum_attention_heads = 2\n"
                      "[data]\ntrain = [\"pairs.jsonl\"]\nform = \"preference\"\n"
                      "validation_fraction = 0.2\nsequence_length = 64\n"
                      "[train]\nsteps = 6\nbatch_size = 4\n"
                      "[optimizer]\nlr = 5e-3\n[checkpoint]\nevery_steps = 2\nkeep = 100\n" +
                          more + "[run]\nout = \"out\"\nseed = 5\n");
}

double mean_of(const std::vector<AuxScalar>& means, std::string_view name) {
  for (const AuxScalar& mean : means)
    if (mean.name == name) return mean.value;
  ADD_FAILURE() << name;
  return 0;
}

double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

// The log probabilities of one answer.
struct Answer {
  double logp = 0, start = 0;
  double labels = 0;
  double mean() const { return logp / labels; }
};

// The equations of the papers for one pair.
double loss_of(const config::PreferenceSection& o, const Answer& c, const Answer& r) {
  if (o.loss == "orpo") {
    const auto odds = [](double mean) { return std::exp(mean) / (1 - std::exp(mean)); };
    const double ratio = odds(c.mean()) / odds(r.mean());
    return -c.mean() - o.beta * std::log(1 / (1 + 1 / ratio));
  }
  if (o.loss == "ipo") {
    const double h = (c.logp - c.start) / c.labels - (r.logp - r.start) / r.labels;
    return (h - 1 / (2 * o.beta)) * (h - 1 / (2 * o.beta));
  }
  const double h = o.beta * ((c.logp - c.start) - (r.logp - r.start));
  return (1 - o.label_smoothing) * softplus(-h) + o.label_smoothing * softplus(h);
}

// Two pairs in a row, each answer also alone, and a start that differs from the model.
struct TwoPairs {
  decoder::Model model = open_model(test_model("llama2_deep").path);
  std::vector<Rows> alone;
  Rows rows;
  std::vector<double> start = {-40, -45, -50, -38};

  TwoPairs() {
    const std::int64_t sizes[] = {16, 11, 9, 17};
    for (int i = 0; i < 4; ++i) {
      alone.push_back(random_rows(model, 1, sizes[i], 20 + i));
      std::fill_n(alone.back().labels.begin(), 3, -100);  // the prompt
    }
    rows = pack(alone, kTokens);
  }

  // Computed with each answer in a separate row, in f64 from logits.
  std::vector<Answer> answers(std::span<const ConstTensorRef> weights) const {
    std::vector<Answer> out;
    const auto vocabulary = static_cast<std::size_t>(model.vocab_size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      const std::vector<float> logits = forward(model, weights, alone[i]);
      Answer answer{.start = start[i]};
      for (std::size_t t = 0; t < alone[i].labels.size(); ++t) {
        if (alone[i].labels[t] < 0) continue;
        double sum = 0;
        for (std::size_t v = 0; v < vocabulary; ++v)
          sum += std::exp(static_cast<double>(logits[t * vocabulary + v]));
        answer.logp += static_cast<double>(
                           logits[t * vocabulary + static_cast<std::size_t>(alone[i].labels[t])]) -
                       std::log(sum);
        ++answer.labels;
      }
      out.push_back(answer);
    }
    return out;
  }
};

const config::PreferenceSection kLosses[] = {
    {.loss = "dpo", .beta = 0.1},
    {.loss = "dpo", .beta = 0.3, .label_smoothing = 0.2},
    {.loss = "ipo", .beta = 0.1},
    {.loss = "orpo", .beta = 0.1},
};

TEST(Preference, LossesEqualThePapers) {
  const TwoPairs pairs;
  const weights::Weights weights = load_weights(test_model("llama2_deep"), pairs.model);
  const std::vector<Answer> a = pairs.answers(weights.pointers());
  const std::vector<float> start(pairs.start.begin(), pairs.start.end());
  for (const config::PreferenceSection& section : kLosses) {
    train::EvalStep eval(pairs.model, 1, kTokens, DType::f32, true, cpu::cpu_backend(),
                         {.task = train::preference_task(section)});
    program::Microbatch batch = pairs.rows.microbatch();
    batch.reference = start.data();
    const train::EvalSums sums = eval.run(batch, weights.pointers());
    const double want = loss_of(section, a[0], a[1]) + loss_of(section, a[2], a[3]);
    EXPECT_EQ(sums.num_labels, 2) << section.loss;
    EXPECT_NEAR(sums.loss, want, 2e-5 * std::abs(want)) << section.loss;
    EXPECT_NEAR(mean_of(sums.task_means(), "chosen_logp"), (a[0].logp + a[2].logp) / 2, 1e-3);
    EXPECT_NEAR(mean_of(sums.task_means(), "rejected_logp"), (a[1].logp + a[3].logp) / 2, 1e-3);
  }
}

TEST(Preference, GradientsAreSlopesOfTheLosses) {
  const TwoPairs pairs;
  for (const config::PreferenceSection& section : kLosses) {
    const Slope slope(pairs.model, test_model("llama2_deep"),
                      train::preference_task(section)->loss_graph(
                          pairs.model, {1, kTokens, DType::f64}, {.segments = true}),
                      {{"loss", 1}}, [&](program::BoundProgram& program) {
                        pairs.rows.microbatch().bind(program);
                        program.bind(decoder::Input::reference, pairs.start.data());
                      });
    const auto [of_backward, measured] = slope.along(7);
    EXPECT_NEAR(of_backward, measured, 1e-5 * std::abs(measured) + 1e-7) << section.loss;
    EXPECT_GT(std::abs(measured), 1e-4);
  }
}

TEST(Preference, TheFirstLossOfDpoIsLn2) {
  for (const char* name : {"float32", "bfloat16"}) {
    const std::string dtype = name;
    const TempDir folder;
    RunOfFile run(write_run(folder), {"train.dtype=" + dtype, "train.steps=1"});
    const train::StepResult first = run.steps().front();
    EXPECT_NEAR(first.loss, std::log(2.0), dtype == "float32" ? 1e-5 : 2e-3);
    EXPECT_NEAR(mean_of(first.task_means, "reward_margin"), 0, dtype == "float32" ? 1e-5 : 2e-2);
  }
}

TEST(Preference, AModelLearnsToPrefer) {
  for (const char* loss : {"dpo", "ipo", "orpo"}) {
    const TempDir folder;
    RunOfFile run(write_run(folder), {"train.steps=40", "schedule.kind=constant",
                                      "preference.loss=" + std::string(loss)});
    const std::vector<train::StepResult> steps = run.steps();
    EXPECT_LT(steps.back().loss, steps.front().loss) << loss;
    EXPECT_EQ(mean_of(steps.back().task_means, "reward_accuracy"), 1) << loss;
    EXPECT_GT(mean_of(steps.back().task_means, "reward_margin"),
              mean_of(steps.front().task_means, "reward_margin") + 0.05)
        << loss;
  }
}

TEST(Preference, AccumulatedMicrobatchesAreAsOneBatch) {
  const TempDir a, b;
  RunOfFile one(write_run(a), {"train.steps=3"}),
      four(write_run(b), {"train.steps=3", "train.microbatch_size=1"});
  const auto whole = one.steps(), parts = four.steps();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(whole[i].loss, parts[i].loss, 1e-5);
    EXPECT_NEAR(whole[i].gradient_norm, parts[i].gradient_norm, 1e-4 * whole[i].gradient_norm);
    EXPECT_NEAR(mean_of(whole[i].task_means, "chosen_logp"),
                mean_of(parts[i].task_means, "chosen_logp"), 1e-3);
  }
}

TEST(Preference, ResumesToTheSameBitsWithoutTheStore) {
  const TempDir a, b;
  RunOfFile(write_run(a)).train();
  RunOfFile(write_run(b)).train(3);
  fs::remove_all(b / "tokens");
  RunOfFile(write_run(b)).train();
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "reference.bin"}) {
    const std::string path = "out/checkpoints/step-00000006/" + std::string(name);
    EXPECT_FALSE(a.read(path).empty());
    EXPECT_TRUE(a.read(path) == b.read(path)) << name;
  }
}

std::vector<std::string> kept_references(const TempDir& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder / "tokens"))
    if (entry.path().filename().string().starts_with("reference-"))
      out.push_back(entry.path().string());
  return out;
}

// A run on pairs that starts from a golden model.
std::string write_tuning_run(const TempDir& folder) {
  add_golden_model(folder, "llama3_gqa");
  folder.write("pairs.jsonl", pairs_text("the river"));
  return folder.write("run.toml",
                      "[data]\ntrain = [\"pairs.jsonl\"]\nform = \"preference\"\n"
                      "sequence_length = 64\n[train]\nfrom = \"model\"\nsteps = 1\nbatch_size = 2\n"
                      "[run]\nout = \"out\"\n");
}

TEST(Preference, AnAdapterAtTheStartIsPartOfTheReference) {
  const TempDir folder;
  const std::string file = write_tuning_run(folder);
  RunOfFile adapter(file, {"lora.rank=4", "train.steps=2", "optimizer.lr=0.1"});
  EXPECT_GT(std::abs(adapter.steps().back().loss - std::log(2.0)), 1e-3);
  RunOfFile next(file, {"train.from=" + adapter.checkpoint(), "run.out=" + folder / "next"});
  ASSERT_TRUE(next.training.model->adapter());
  EXPECT_NEAR(next.steps().front().loss, std::log(2.0), 1e-5);
  EXPECT_EQ(kept_references(folder).size(), 2u);
}

TEST(Preference, TheStartIsComputedOnceForRunsThatShareIt) {
  const TempDir folder;
  const std::string file = write_tuning_run(folder);
  RunOfFile first(file);
  first.train();
  ASSERT_EQ(kept_references(folder).size(), 1u);
  // The reference is the base model without the adapter, which is the same model.
  RunOfFile lora(file, {"lora.rank=4", "run.out=" + folder / "lora"});
  const train::StepResult step = lora.steps().front();
  EXPECT_NEAR(step.loss, std::log(2.0), 1e-5);
  EXPECT_EQ(kept_references(folder).size(), 1u);
  const std::string want = folder.read("out/checkpoints/step-00000001/reference.bin");
  EXPECT_EQ(folder.read("lora/checkpoints/step-00000001/reference.bin"), want);
  // A damaged file is computed again.
  std::string damaged = want;
  damaged.back() ^= 1;
  folder.write("tokens/" + fs::path(kept_references(folder)[0]).filename().string(), damaged);
  RunOfFile(file, {"run.out=" + folder / "third"}).train();
  EXPECT_EQ(folder.read("third/checkpoints/step-00000001/reference.bin"), want);
}

TEST(Preference, OrpoComparesWithNothing) {
  const TempDir folder;
  RunOfFile run(write_run(folder, "[preference]\nloss = \"orpo\"\n"));
  run.train();
  EXPECT_FALSE(fs::exists(run.checkpoint() + "/reference.bin"));
}

TEST(Preference, ValidationReportsTheLossOfPairs) {
  const TempDir folder;
  RunOfFile run(write_run(folder), {"train.steps=40", "schedule.kind=constant"});
  std::vector<AuxScalar> means;
  train::LoopEvents events;
  events.validation = [&](const train::LoopEvents::Validation& v) { means = v.task_means; };
  const train::LoopResult result = run.run->loop().run(events);
  EXPECT_LT(*result.validation_loss, std::log(2.0));
  EXPECT_EQ(mean_of(means, "reward_accuracy"), 1);
}

TEST(Preference, KeysWithoutAnEffectAreRefused) {
  const TempDir folder;
  const auto refused = [&](const std::vector<std::string>& sets, const char* says) {
    EXPECT_ERROR_SAYS(RunOfFile(write_run(folder), sets), ExitCode::usage, says);
  };
  refused({"train.z_loss=0.1"}, "'train.z_loss' has no effect on preferences");
  refused({"train.label_smoothing=0.1"}, "'train.label_smoothing' has no effect on preferences");
  refused({"data.loss_on=last"},
          "'data.loss_on' requires data.form = \"chat\", got \"preference\"");
  refused({"preference.loss=orpo", "preference.label_smoothing=0.1"},
          "'preference.label_smoothing' requires preference.loss = \"dpo\", got \"orpo\"");
  refused({"data.form=text", "preference.label_smoothing=0.0"},
          "'preference.label_smoothing' requires data.form = \"preference\", got \"text\"");
  refused({"data.form=text", "preference.beta=0.2"},
          "'preference.beta' requires data.form = \"preference\", got \"text\"\n"
          "  set data.form = \"preference\", or remove it");
}

}  // namespace
}  // namespace lamina::testing
