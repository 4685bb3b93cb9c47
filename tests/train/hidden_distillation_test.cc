// distillation.hidden_layers: the distance of layers' outputs compared with its definition in f64,
// gradients with finite differences, and runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "config/layer_pair.h"
#include "inspect/plan/train_plan.h"
#include "model/teacher.h"
#include "support/expect_error.h"
#include "support/slope.h"
#include "train/distillation_runs.h"
#include "train/tasks/teacher.h"

namespace lamina::testing {
namespace {

using decoder::Input;

double mean_squared_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}
double cosine_distance(const std::vector<double>& a, const std::vector<double>& b) {
  const auto product = [](const auto& x, const auto& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  return 1 - product(a, b) / std::sqrt(product(a, a) * product(b, b));
}

config::DistillationSection section_of(const std::string& loss,
                                       const std::vector<std::string>& pairs) {
  return {.teacher = "another model", .top_k = 3, .hidden_layers = pairs, .hidden_loss = loss};
}

// Two pairs of layers, one of them the last layers; and one pair.
std::vector<config::DistillationSection> sections() {
  return {section_of("mse", {"1:0", "last:last"}), section_of("cosine", {"1:0", "last:last"}),
          section_of("mse", {"0:last"})};
}

// The output of the layer of `pair` for a token.
std::vector<double> state_of(const inspect::ForwardResult& result,
                             std::optional<std::int64_t> layer, std::size_t token,
                             std::size_t num_tokens) {
  const std::size_t last = result.hidden.size() - 2;
  const std::vector<float>& all =
      result.hidden[layer ? static_cast<std::size_t>(*layer) + 1 : last + 1];
  const std::size_t width = all.size() / num_tokens;
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(token * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(width)};
}

class HiddenDistillation : public ::testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  const TestModel& from() const { return test_model(std::get<0>(GetParam())); }
  bool scan_layers() const { return std::get<1>(GetParam()); }
};

TEST_P(HiddenDistillation, DistanceEqualsItsDefinition) {
  const Documents documents(from(), scan_layers());
  const weights::Weights student = load_weights(from(), documents.model);
  const auto teacher_model = std::make_shared<const decoder::Model>(open_model(from().path));
  const weights::Weights other =
      weights::Weights::initialise(*teacher_model, 99, DType::f32, cpu::cpu_backend());
  for (const config::DistillationSection& section : sections()) {
    const auto distance = section.hidden_loss == "mse" ? mean_squared_difference : cosine_distance;
    double want = 0;
    for (const Rows& document : documents.alone) {
      const auto ours = forward_with_hidden(documents.model, student.pointers(), document),
                 theirs = forward_with_hidden(*teacher_model, other.pointers(), document);
      for (std::size_t t = 0; t < document.labels.size(); ++t)
        for (const std::string& text : section.hidden_layers) {
          if (document.labels[t] < 0) continue;
          const config::LayerPair pair = config::parse_layer_pair(text).value();
          want += distance(state_of(ours, pair.student, t, document.labels.size()),
                           state_of(theirs, pair.teacher, t, document.labels.size())) /
                  static_cast<double>(section.hidden_layers.size());
        }
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
    EXPECT_NEAR(step.loss("hidden"), want, 5e-5 * want) << section.hidden_loss;
    EXPECT_GT(want, 1e-3);
  }
}

TEST_P(HiddenDistillation, GradientsAreSlopesOfTheLosses) {
  const Documents documents(from(), scan_layers());
  const auto num_rows = static_cast<std::size_t>(kTokens);
  for (const config::DistillationSection& section : sections()) {
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    std::vector<double> hidden(section.hidden_layers.size() * num_rows *
                               static_cast<std::size_t>(documents.model.layer_width()));
    for (double& x : hidden) x = normal(random);
    std::vector<double> logp(num_rows * 3, std::log(0.2));
    std::vector<std::int32_t> ids(num_rows * 3);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 3);
    const Slope slope(
        documents.model, from(),
        train::distillation_task(section)->loss_graph(documents.model, {1, kTokens, DType::f64},
                                                      {.segments = true, .training = true}),
        {{"kl", 0.5}, {"hidden", 1.5}}, [&](program::BoundProgram& program) {
          documents.rows.microbatch().bind(program);
          program.bind(Input::teacher_logp, logp.data());
          program.bind(Input::teacher_ids, ids.data());
          program.bind(Input::teacher_hidden, hidden.data());
        });
    const auto [of_backward, measured] = slope.along(7);
    EXPECT_NEAR(of_backward, measured, 1e-5 * std::abs(measured) + 1e-7) << section.hidden_loss;
    EXPECT_GT(std::abs(measured), 1e-3) << section.hidden_loss;
  }
}

// The models include units of several layers, segments of several kinds, and streams passed between
// layers.
INSTANTIATE_TEST_SUITE_P(Models, HiddenDistillation,
                         ::testing::Combine(::testing::Values("llama2_deep", "gemma2_predicts",
                                                              "deepseek_streams"),
                                            ::testing::Bool()));

// As wide as the student, and deeper.
constexpr const char* kWideTeacher =
    "family = \"gpt3\"\n[model]\nvocab_size = 258\nhidden_size = 16\nnum_hidden_layers = 3\n"
    "num_attention_heads = 2\nmax_position_embeddings = 64\n";

std::string write_file(const TempDir& folder, const std::string& more = "") {
  return write_student(folder, "top_k = 8\nhidden_layers = [\"0:1\", \"last:last\"]\n" + more,
                       kWideTeacher);
}

double hidden_of(const train::StepResult& step) {
  EXPECT_EQ(step.task_means.size(), 2u);
  return step.task_means.size() == 2 ? step.task_means[1].value : -1;
}

TEST(HiddenDistillationRun, MinimisesTheDistance) {
  for (const char* loss : {"mse", "cosine"}) {
    const TempDir folder;
    RunOfFile run(write_file(folder, fmt::format("alpha = 0.0\nhidden_weight = 4.0\n"
                                                 "hidden_loss = \"{}\"\n",
                                                 loss)),
                  {"train.steps=40"});
    const auto steps = run.steps();
    for (const train::StepResult& step : steps)
      EXPECT_NEAR(step.total, step.loss + 4 * hidden_of(step), 1e-5 * step.total);
    EXPECT_LT(hidden_of(steps.back()), 0.9 * hidden_of(steps.front())) << loss;
    EXPECT_THAT(folder.read("student/metrics.jsonl"), ::testing::HasSubstr("\"train/hidden\":"));
  }
}

TEST(HiddenDistillationRun, WithoutAWeightItChangesNoBit) {
  const TempDir folder;
  for (const char* loss : {"mse", "cosine"}) {
    const std::string out = folder / loss;
    RunOfFile(write_file(folder), {"distillation.hidden_weight=0.0", "run.out=" + out,
                                   std::string("distillation.hidden_loss=") + loss})
        .train();
    RunOfFile(write_file(folder), {"distillation.hidden_layers=[]", "run.out=" + out + "-without"})
        .train();
    expect_same_checkpoints(out, out + "-without");
  }
}

TEST(HiddenDistillationRun, ATeacherThatIsTheModelIsAtNoDistance) {
  const TempDir folder;
  RunOfFile(write_run(folder, "teacher", kSmall), {"train.steps=2"}).train();
  RunOfFile run(write_student(folder, "hidden_layers = [\"0:0\", \"last:1\"]\n"),
                {"train.from=" + folder / "teacher", "train.steps=1"});
  EXPECT_NEAR(hidden_of(run.steps().front()), 0, 1e-9);
}

void expect_same_steps(const std::vector<train::StepResult>& a,
                       const std::vector<train::StepResult>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(hidden_of(a[i]), hidden_of(b[i]), 1e-4 * hidden_of(a[i]));
    EXPECT_NEAR(a[i].gradient_norm, b[i].gradient_norm, 1e-3 * a[i].gradient_norm);
  }
}

TEST(HiddenDistillationRun, LayersOneByOneOrInScansAreTheSame) {
  const TempDir folder;
  RunOfFile scanned(write_file(folder), {"run.out=" + folder / "scanned"}),
      unrolled(write_file(folder), {"run.out=" + folder / "unrolled", "train.scan_layers=false"});
  expect_same_steps(scanned.steps(), unrolled.steps());
}

TEST(HiddenDistillationRun, AccumulatedMicrobatchesAreAsOneBatch) {
  const TempDir folder;
  RunOfFile one(write_file(folder), {"run.out=" + folder / "one"}),
      four(write_file(folder), {"train.microbatch_size=1", "run.out=" + folder / "four"});
  expect_same_steps(one.steps(), four.steps());
}

TEST(HiddenDistillationRun, AnAdapterLearnsWithRematerialisation) {
  const TempDir folder;
  const auto distance_after = [&](const std::string& remat) {
    RunOfFile run(write_file(folder),
                  {"train.steps=30", "lora.rank=8", "train.remat=" + remat,
                   "distillation.hidden_weight=4.0", "run.out=" + folder / remat});
    const auto steps = run.steps();
    EXPECT_LT(hidden_of(steps.back()), hidden_of(steps.front()));
    return hidden_of(steps.back());
  };
  EXPECT_NEAR(distance_after("none"), distance_after("full"), 1e-4);
}

TEST(HiddenDistillationRun, ResumesToTheSameBits) {
  const TempDir folder;
  expect_goes_on_to_the_same_bits(folder, write_file(folder, "hidden_loss = \"cosine\"\n"));
}

TEST(HiddenDistillationRun, ThePlanIncludesTheTeachersOutputs) {
  const TempDir folder;
  const config::RunConfig config = config::load_run(write_file(folder), {});
  auto model = model::open_trained(config, built_plugins());
  const inspect::TrainPlan plan = inspect::plan_training(
      *model, config, cpu::cpu_backend(), model::describe_teacher(config, built_plugins(), *model));
  RunOfFile run(write_file(folder));
  EXPECT_EQ(plan.memory.updates + plan.step_bytes + plan.validation_bytes +
                plan.memory.teacher.temporaries,
            run.run->loop().temporary_bytes());
}

TEST(HiddenDistillationRun, LayersThatCannotBeComparedAreRefused) {
  const TempDir folder;
  const std::string file = write_file(folder);
  const auto refused = [&](const std::string& set, const std::string& says) {
    EXPECT_ERROR_SAYS(RunOfFile(file, {set}), ExitCode::usage, says);
  };
  refused("distillation.hidden_layers=[\"2:1\"]",
          "'2:1' refers to layer 2 of the student, which has layers 0 to 1");
  refused("distillation.hidden_layers=[\"1:3\"]",
          "'1:3' refers to layer 3 of " + folder / "teacher");
  refused("model.hidden_size=32", "have 16 values per token, the student's have 32");
  for (const char* pair : {"1", "a:b", "1:", "-1:2", "1:2:3", "1:2x"})
    refused(fmt::format("distillation.hidden_layers=[\"{}\"]", pair),
            fmt::format("'{}' is not a pair of layers", pair));
  EXPECT_ERROR_SAYS(
      RunOfFile(file, {"distillation.hidden_layers=[]", "distillation.hidden_weight=2.0"}),
      ExitCode::usage,
      "'distillation.hidden_weight' has no effect without "
      "'distillation.hidden_layers'");
  EXPECT_ERROR_SAYS(
      RunOfFile(write_run(folder, "alone", kSmall), {"distillation.hidden_layers=[\"1:1\"]"}),
      ExitCode::usage, "'distillation.hidden_layers' has no effect without 'distillation.teacher'");
}

}  // namespace
}  // namespace lamina::testing
