// [distillation]: the divergence compared with its definition in f64, gradients with finite
// differences; and runs that learn from a teacher, resume with the same bits, or are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <random>

#include "inspect/plan/train_plan.h"
#include "model/teacher.h"
#include "support/expect_error.h"
#include "support/published_model.h"
#include "support/slope.h"
#include "train/distillation_runs.h"
#include "train/tasks/teacher.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using decoder::Input;

std::vector<double> log_softmax(const float* logits, std::size_t vocabulary, double temperature) {
  std::vector<double> out(vocabulary);
  double sum = 0;
  for (std::size_t v = 0; v < vocabulary; ++v) {
    out[v] = static_cast<double>(logits[v]) / temperature;
    sum += std::exp(out[v]);
  }
  for (double& x : out) x -= std::log(sum);
  return out;
}

std::vector<std::size_t> likeliest(const std::vector<double>& logp, std::int64_t count) {
  std::vector<std::size_t> out(logp.size());
  std::iota(out.begin(), out.end(), 0u);
  std::ranges::stable_sort(out, [&](std::size_t a, std::size_t b) { return logp[a] > logp[b]; });
  if (count > 0) out.resize(static_cast<std::size_t>(count));
  return out;
}

// KL(p || q) over the most likely outcomes of p, with all others as one outcome.
double divergence(const std::vector<double>& log_p, const std::vector<double>& log_q,
                  std::int64_t top_k) {
  double out = 0, rest_p = 1, rest_q = 1;
  for (std::size_t v : likeliest(log_p, top_k)) {
    out += std::exp(log_p[v]) * (log_p[v] - log_q[v]);
    rest_p -= std::exp(log_p[v]);
    rest_q -= std::exp(log_q[v]);
  }
  return top_k == 0 ? out : out + rest_p * std::log(rest_p / rest_q);
}

config::DistillationSection section_of(std::int64_t top_k, double temperature) {
  return {.teacher = "another model", .temperature = temperature, .top_k = top_k};
}

const config::DistillationSection kSections[] = {
    section_of(0, 1), section_of(0, 2.5), section_of(5, 1), section_of(5, 2.5), section_of(1, 0.7)};

std::string name_of(const config::DistillationSection& section) {
  return fmt::format("top_k {}, temperature {}", section.top_k, section.temperature);
}

class Distillation : public ::testing::TestWithParam<const char*> {};

// The models include heads with a soft cap and with a bias.
TEST_P(Distillation, DivergenceEqualsItsDefinition) {
  const TestModel& from = test_model(GetParam());
  const Documents documents(from);
  const weights::Weights student = load_weights(from, documents.model);
  const auto teacher_model = std::make_shared<const decoder::Model>(open_model(from.path));
  const weights::Weights other =
      weights::Weights::initialise(*teacher_model, 99, DType::f32, cpu::cpu_backend());
  const auto vocabulary = static_cast<std::size_t>(documents.model.vocab_size());
  for (const config::DistillationSection& section : kSections) {
    double want = 0;
    for (const Rows& document : documents.alone) {
      const std::vector<float> ours = forward(documents.model, student.pointers(), document),
                               theirs = forward(*teacher_model, other.pointers(), document);
      for (std::size_t t = 0; t < document.labels.size(); ++t)
        if (document.labels[t] >= 0)
          want += divergence(
              log_softmax(theirs.data() + t * vocabulary, vocabulary, section.temperature),
              log_softmax(ours.data() + t * vocabulary, vocabulary, section.temperature),
              section.top_k);
    }
    const auto task = train::distillation_task(section);
    train::Teacher teacher(
        {teacher_model, {other.pointers().begin(), other.pointers().end()}, DType::f32}, 1, kTokens,
        task->teacher(), cpu::cpu_backend());
    program::BoundProgram step(
        task->loss_graph(documents.model, {1, kTokens}, {.segments = true, .training = true}),
        cpu::cpu_backend());
    step.bind_parameters(student.pointers());
    teacher.bind(step);
    const program::Microbatch batch = documents.rows.microbatch();
    batch.bind(step);
    teacher.run(batch);
    step.run(*cpu::cpu_backend().allocate(step.arena_bytes()));
    EXPECT_NEAR(step.loss("kl"), want, 5e-5 * want + 1e-5) << name_of(section);
    EXPECT_GT(want, 1e-3) << name_of(section);
  }
}

// A teacher's values for every row, in f64.
struct Told {
  std::vector<double> logp;
  std::vector<std::int32_t> ids;

  Told(const config::DistillationSection& section, std::int64_t vocabulary) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      std::vector<float> logits(static_cast<std::size_t>(vocabulary));
      for (float& x : logits) x = 2 * normal(random);
      const auto all = log_softmax(logits.data(), logits.size(), section.temperature);
      if (section.top_k == 0) {
        logp.insert(logp.end(), all.begin(), all.end());
        continue;
      }
      for (std::size_t v : likeliest(all, section.top_k)) {
        logp.push_back(all[v]);
        ids.push_back(static_cast<std::int32_t>(v));
      }
    }
  }
};

TEST_P(Distillation, GradientsAreSlopesOfTheLosses) {
  const TestModel& from = test_model(GetParam());
  const Documents documents(from);
  for (const config::DistillationSection& section : kSections) {
    Told told(section, documents.model.vocab_size());
    const Slope slope(
        documents.model, from,
        train::distillation_task(section)->loss_graph(documents.model, {1, kTokens, DType::f64},
                                                      {.segments = true, .training = true}),
        {{"loss", 0.25}, {"kl", 1.5}}, [&](program::BoundProgram& program) {
          documents.rows.microbatch().bind(program);
          program.bind(Input::teacher_logp, told.logp.data());
          program.bind(Input::teacher_ids, told.ids.data());
        });
    const auto [of_backward, measured] = slope.along(7);
    EXPECT_NEAR(of_backward, measured, 1e-5 * std::abs(measured) + 1e-7) << name_of(section);
    EXPECT_GT(std::abs(measured), 1e-3) << name_of(section);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Distillation,
                         ::testing::Values("llama2_deep", "gemma2_predicts", "features_bias"));

double kl_of(const train::StepResult& step) {
  EXPECT_EQ(step.task_means.size(), 1u);
  return step.task_means.empty() ? -1 : step.task_means[0].value;
}

TEST(DistillationRun, MinimisesTheSharesOfBothLosses) {
  const TempDir folder;
  RunOfFile run(write_student(folder, "alpha = 0.7\ntemperature = 2.0\n"),
                {"train.steps=2", "train.label_smoothing=0.1"});
  for (const train::StepResult& step : run.steps()) {
    const double labels = 0.9 * step.loss + 0.1 * step.mean_of("uniform_loss");
    EXPECT_NEAR(step.total, 0.3 * labels + 0.7 * 4 * kl_of(step), 1e-6);
  }
  EXPECT_THAT(folder.read("student/metrics.jsonl"), ::testing::HasSubstr("\"train/kl\":"));
}

TEST(DistillationRun, AModelComesCloserToItsTeacher) {
  for (const std::vector<std::string>& sets : std::vector<std::vector<std::string>>{
           {"distillation.alpha=1.0"},
           {"distillation.alpha=1.0", "distillation.temperature=2.0", "distillation.top_k=8"},
           {"train.dtype=bfloat16", "distillation.dtype=bfloat16", "distillation.top_k=8"}}) {
    const TempDir folder;
    std::vector<std::string> all = sets;
    all.emplace_back("train.steps=40");
    RunOfFile run(write_student(folder), all);
    const auto steps = run.steps();
    EXPECT_LT(kl_of(steps.back()), 0.3 * kl_of(steps.front())) << sets.back();
  }
}

TEST(DistillationRun, ATeacherThatIsTheModelTeachesNothing) {
  for (const char* top_k : {"0", "4"}) {
    const TempDir folder;
    const std::string from = add_golden_model(folder, "llama3_gqa");
    folder.write("text.txt", text_of_words(60));
    RunOfFile run(folder.write("run.toml",
                               "[data]\ntrain = [\"text.txt\"]\nsequence_length = 32\n"
                               "[train]\nfrom = \"model\"\nsteps = 1\nbatch_size = 2\n"
                               "[distillation]\nteacher = \"model\"\nalpha = 1.0\n"
                               "temperature = 2.0\ndtype = \"float32\"\n[run]\nout = \"out\"\n"),
                  {std::string("distillation.top_k=") + top_k});
    const train::StepResult step = run.steps().front();
    EXPECT_NEAR(kl_of(step), 0, 1e-6);
    EXPECT_LT(step.gradient_norm, 1e-4);
    EXPECT_GT(step.loss, 0.1);
  }
}

// Logits / temperature of the prompt differ by more than 88.7, the logarithm of the largest f32.
TEST(DistillationRun, ALowTemperatureKeepsTheGradientsOfPromptsFinite) {
  for (const char* top_k : {"0", "4"}) {
    const TempDir folder;
    add_golden_model(folder, "llama3_gqa");
    std::string records;
    for (int i = 0; i < 8; ++i)
      records += R"({"prompt": "the light was upon a deep", "completion": "river rose"})"
                 "\n";
    folder.write("records.jsonl", records);
    RunOfFile run(folder.write("run.toml",
                               "[data]\ntrain = [\"records.jsonl\"]\nform = \"chat\"\n"
                               "sequence_length = 16\n"
                               "[train]\nfrom = \"model\"\nsteps = 1\nbatch_size = 2\n"
                               "dtype = \"float32\"\n"
                               "[distillation]\nteacher = \"model\"\nalpha = 1.0\n"
                               "temperature = 0.02\ndtype = \"float32\"\n"
                               "[run]\nout = \"out\"\n"),
                  {std::string("distillation.top_k=") + top_k});
    const train::StepResult step = run.steps().front();
    EXPECT_NEAR(kl_of(step), 0, 1e-4);  // the teacher is the model
    EXPECT_LT(step.gradient_norm, 1e-3);
  }
}

TEST(DistillationRun, WithoutAShareItChangesNoBit) {
  for (const char* more : {"", "top_k = 6\n", "top_k = 6\ntemperature = 3.0\n"}) {
    const TempDir folder;
    RunOfFile student(write_student(folder, std::string("alpha = 0.0\n") + more));
    const train::LoopResult with = student.train();
    const train::LoopResult without = RunOfFile(write_run(folder, "alone", kSmall)).train();
    EXPECT_EQ(with.last_loss, without.last_loss);
    EXPECT_EQ(*with.validation_loss, *without.validation_loss);
    expect_same_checkpoints(folder / "student", folder / "alone");
  }
}

TEST(DistillationRun, AccumulatedMicrobatchesAreAsOneBatch) {
  const TempDir folder;
  const std::string file = write_student(folder, "top_k = 8\n");
  RunOfFile one(file, {"train.steps=3"}),
      four(file, {"train.steps=3", "train.microbatch_size=1", "run.out=" + folder / "parts"});
  const auto whole = one.steps(), parts = four.steps();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(whole[i].loss, parts[i].loss, 1e-4);
    EXPECT_NEAR(kl_of(whole[i]), kl_of(parts[i]), 1e-4);
    EXPECT_NEAR(whole[i].gradient_norm, parts[i].gradient_norm, 1e-3 * whole[i].gradient_norm);
  }
}

TEST(DistillationRun, AnAdapterLearnsWithRematerialisation) {
  const TempDir folder;
  const std::string file = write_student(folder, "alpha = 1.0\ntop_k = 8\n");
  const auto kl_after = [&](const std::string& remat) {
    RunOfFile run(file, {"train.steps=30", "lora.rank=8", "train.remat=" + remat,
                         "run.out=" + folder / remat});
    const auto steps = run.steps();
    EXPECT_LT(kl_of(steps.back()), kl_of(steps.front()));
    return kl_of(steps.back());
  };
  EXPECT_NEAR(kl_after("none"), kl_after("full"), 1e-4);
}

TEST(DistillationRun, ResumesToTheSameBits) {
  const TempDir folder;
  expect_goes_on_to_the_same_bits(folder, write_student(folder, "top_k = 8\ntemperature = 2.0\n"));
}

TEST(DistillationRun, ThePlanHasTheTeacher) {
  const TempDir folder;
  for (const char* top_k : {"0", "8"}) {
    const config::RunConfig config =
        config::load_run(write_student(folder), {{std::string("distillation.top_k=") + top_k}, {}});
    auto model = model::open_trained(config, built_plugins());
    const inspect::TeacherOfPlan teacher = model::describe_teacher(config, built_plugins(), *model);
    const inspect::TrainPlan plan =
        inspect::plan_training(*model, config, cpu::cpu_backend(), teacher);
    RunOfFile run(write_student(folder), {std::string("distillation.top_k=") + top_k});
    EXPECT_EQ(plan.memory.updates + plan.step_bytes + plan.validation_bytes +
                  plan.memory.teacher.temporaries,
              run.run->loop().temporary_bytes());
    std::size_t weights = 0;
    for (const decoder::Parameter& p : teacher->parameters().all())
      weights += aligned(4 * static_cast<std::size_t>(p.num_elements()));
    EXPECT_EQ(plan.memory.teacher.weights, weights);
  }
}

TEST(DistillationRun, TheLikeliestTokensTakeNoLogitsOfTheVocabulary) {
  const TempDir folder;
  std::string teacher = kTeacher;
  folder.write("teacher.toml", teacher.replace(teacher.find("258"), 3, "20000"));
  const auto plan = [&](const std::string& more) {
    const config::RunConfig config =
        config::load_run(write_run(folder, "student", kSmall, more),
                         {{"model.vocab_size=20000", "train.batch_size=32"}, {}});
    auto model = model::open_trained(config, built_plugins());
    return inspect::plan_training(*model, config, cpu::cpu_backend(),
                                  model::describe_teacher(config, built_plugins(), *model));
  };
  const std::string distillation = "[distillation]\nteacher = \"teacher.toml\"\n";
  const inspect::TrainPlan without = plan(""), all = plan(distillation),
                           likeliest = plan(distillation + "top_k = 16\n");
  const std::size_t logits = std::size_t{32} * 32 * 20000 * sizeof(float);
  EXPECT_GT(all.step_bytes, without.step_bytes + logits / 2);
  EXPECT_GT(all.memory.teacher.temporaries, logits);
  EXPECT_LT(likeliest.step_bytes, without.step_bytes + logits / 4);
  EXPECT_LT(likeliest.memory.teacher.temporaries, logits / 4);
}

TEST(DistillationRun, TeachersThatDoNotFitAreRefused) {
  const TempDir folder;
  const std::string file = write_student(folder);
  const auto refused = [&](const std::vector<std::string>& sets, ExitCode code, const char* says) {
    EXPECT_ERROR_SAYS(RunOfFile(file, sets), code, says);
  };
  refused({"model.vocab_size=260"}, ExitCode::usage,
          "has a vocabulary of 258 tokens, but the student has 260");
  refused({"data.sequence_length=128"}, ExitCode::usage,
          "data.sequence_length, for distillation.teacher");
  refused({"distillation.top_k=259"}, ExitCode::usage, "is 259; the vocabulary has 258 tokens");
  RunOfFile(file).train(2);
  fs::rename(folder / "teacher", folder / "elsewhere");
  refused({}, ExitCode::checkpoint, "does not exist");
  refused({}, ExitCode::checkpoint, "student.toml");
}

TEST(DistillationRun, ATeacherWithOtherTokensIsRefused) {
  const TempDir folder;
  const std::string from = add_golden_model(folder, "llama3_gqa");
  fs::copy(from, folder / "other");
  std::string tokens = folder.read("other/tokenizer.json");
  const auto swap = [&](std::string_view word, std::string_view by) {
    tokens.replace(tokens.find(word), word.size(), by);
  };
  swap("\"river\":9", "\"rose\":9");
  swap("\"rose\":10", "\"river\":10");
  folder.write("other/tokenizer.json", tokens);
  folder.write("text.txt", text_of_words(60));
  const std::string file =
      folder.write("run.toml",
                   "[data]\ntrain = [\"text.txt\"]\nsequence_length = 32\n"
                   "[train]\nfrom = \"model\"\nsteps = 1\nbatch_size = 2\n"
                   "[distillation]\nteacher = \"other\"\n[run]\nout = \"out\"\n");
  EXPECT_ERROR_SAYS(RunOfFile{file}, ExitCode::usage,
                    "gives token 9 the text 'rose'; the student gives it 'river'");
}

TEST(DistillationRun, KeysWithoutAnEffectAreRefused) {
  const TempDir folder;
  const std::string alone = write_run(folder, "alone", kSmall);
  const auto refused = [&](const char* set, const char* says) {
    EXPECT_ERROR_SAYS(RunOfFile(alone, {set}), ExitCode::usage, says);
  };
  refused("distillation.alpha=0.2",
          "'distillation.alpha' has no effect without 'distillation.teacher'");
  refused("distillation.top_k=2", "'distillation.top_k' has no effect without");
  refused("distillation.temperature=0.0", "'distillation.temperature' must be");
  EXPECT_ERROR_SAYS(
      RunOfFile(write_run(folder, "pairs", kSmall, "[distillation]\nteacher = \"teacher\"\n"),
                {"data.form=preference"}),
      ExitCode::usage, "'distillation.teacher' has no effect on preferences");
}

}  // namespace
}  // namespace lamina::testing
