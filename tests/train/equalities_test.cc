// What must not change a training step: how layers are run, what is kept for the backward pass, how
// rows are cut into microbatches or shared by documents, how many threads there are.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/backend.h"
#include "backends/cpu/device/threads.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/paths.h"

namespace lamina::testing {
namespace {

using Tensors = std::vector<std::vector<float>>;

// One document in each row.
const decoder::GraphFeatures kAlone = train::all_losses(false);

class Step : public ::testing::TestWithParam<TestModel> {
 protected:
  Step() : model(open_model(GetParam().path)), tokens(test_tokens(model)) {}

  struct Result {
    train::StepResult step;
    Tensors gradients, updated;
    std::size_t arena_bytes = 0;
  };
  // The gradients of the mean loss of `rows`, and one AdamW update with them.
  Result run(const decoder::Model& of, const Rows& rows, train::TrainStepOptions options) {
    bool accumulate = options.microbatches > 1;
    auto state = load_state(GetParam(), of, options.shape.dtype, accumulate);
    if (disturbance > 0) {
      for (std::size_t i = 0; i < state->masters().size(); ++i)
        disturb({state->masters()[i],
                 static_cast<std::size_t>(of.parameters().all()[i].num_elements())},
                disturbance);
      state->refresh_copies();
    }
    options.shape.batch = rows.batch / options.microbatches;
    options.shape.tokens = rows.tokens;
    options.seed = 11;
    train::TrainStep step(of, *state, options, {}, cpu::cpu_backend());
    std::vector<program::Microbatch> batches;
    for (std::int64_t m = 0; m < options.microbatches; ++m)
      batches.push_back(rows.microbatch(m * options.shape.batch));
    Result out;
    out.arena_bytes = step.arena_bytes();
    out.step = step.gradients(batches, 3);
    out.gradients = copy_of(of, state->gradients());
    step.update(out.step, 1e-3, 3);
    out.updated = copy_of(of, state->masters());
    return out;
  }

  // For sums in another order.
  static double gradient_tolerance() {
    return stated_tolerance(GetParam(), "grad_max_abs_over_max", 2e-5);
  }

  // Per tensor, relative to its largest element or to rounding of the largest gradient there is: a
  // key's bias has a gradient of rounding alone. Allowed is also eight times what differs from
  // `want` in `disturbed`, whose weights differed by a rounding.
  void expect_near(const Tensors& got, const Tensors& want, double tolerance,
                   const Tensors& disturbed = {}) const {
    double largest = 0;
    for (const auto& tensor : want)
      for (float x : tensor) largest = std::max(largest, std::abs(static_cast<double>(x)));
    for (std::size_t i = 0; i < want.size(); ++i) {
      double own = 0;
      for (float x : want[i]) own = std::max(own, std::abs(static_cast<double>(x)));
      double rounding = disturbed.empty() ? 0 : difference(disturbed[i], want[i]);
      EXPECT_LE(difference(got[i], want[i]),
                std::max(tolerance * std::max(own, 1e-3 * largest), 8 * rounding))
          << model.parameters().all()[i].name;
    }
  }
  void expect_same_bits(const Tensors& got, const Tensors& want, const std::string& what) const {
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], want[i])) << what << ": " << model.parameters().all()[i].name;
  }
  // Means over tokens are others where there is other padding, or where they are taken in parts.
  bool has_losses_of_layers() {
    Rows rows = random_rows(model, 1, tokens);
    return run(model, rows, {.features = kAlone}).step.aux_loss != 0;
  }
  bool has_dropout() const { return model.options().embed.dropout > 0; }

  decoder::Model model;
  std::int64_t tokens;
  double disturbance = 0;  // of the weights in run()
};

TEST_P(Step, ScannedAndUnrolledGiveTheSameGradientsAndUpdate) {
  decoder::Model unrolled = open_model(GetParam().path, false);
  Rows rows = random_rows(model, 2, tokens);
  Result a = run(model, rows, {.features = kAlone}), b = run(unrolled, rows, {.features = kAlone});
  EXPECT_NEAR(a.step.loss, b.step.loss, 1e-6 * b.step.loss);
  expect_near(a.gradients, b.gradients, 1e-6);
  expect_near(a.updated, b.updated, 1e-6);
}

TEST_P(Step, EveryRematPolicyGivesTheSameBits) {
  Rows rows = random_rows(model, 2, tokens);
  auto expect = [&](DType dtype, std::initializer_list<const char*> policies) {
    Result everything =
        run(model, rows, {.shape = {.dtype = dtype}, .features = kAlone, .remat = "none"});
    for (const char* policy : policies) {
      Result got =
          run(model, rows, {.shape = {.dtype = dtype}, .features = kAlone, .remat = policy});
      EXPECT_EQ(got.step.loss, everything.step.loss) << policy;
      expect_same_bits(got.gradients, everything.gradients, policy);
    }
  };
  expect(DType::f32, {"full", "minimal_with_context", "save_qkv_proj"});
  expect(DType::bf16, {"full", "minimal"});
}

TEST_P(Step, TagsOfOneOwnKeepWhatTheySay) {
  Rows rows = random_rows(model, 2, tokens);
  auto with = [&](const char* policy, train::RematTags tags = {}) {
    return run(model, rows, {.features = kAlone, .remat = policy, .remat_tags = std::move(tags)});
  };
  Result full = with("full"), everything = with("none"), minimal = with("minimal");
  train::RematTags device, offload;
  for (const std::string& tag : train::find_remat_policy("minimal").saved) {
    device[tag] = "device";
    offload[tag] = "offload";
  }
  Result own = with("custom", device);
  expect_same_bits(own.gradients, everything.gradients, "custom");
  EXPECT_EQ(own.arena_bytes, minimal.arena_bytes);
  EXPECT_EQ(with("custom", offload).arena_bytes, minimal.arena_bytes);
  EXPECT_EQ(with("custom", {{"context", "remat"}}).arena_bytes, full.arena_bytes);
}

TEST(RematTags, CostTheMemoryOfWhatTheyKeep) {
  const std::filesystem::path path = LAMINA_SOURCE_DIR "/tests/support/models/llama2_deep.toml";
  decoder::Model model = open_model(path);
  auto state = load_state({"llama2_deep", path}, model);
  auto arena_bytes = [&](const char* policy, const train::RematTags& tags) {
    return train::TrainStep(
               model, *state,
               {.shape = {2, 16}, .features = kAlone, .remat = policy, .remat_tags = tags}, {},
               cpu::cpu_backend())
        .arena_bytes();
  };
  std::size_t full = arena_bytes("full", {}), none = arena_bytes("none", {}),
              one = arena_bytes("custom", {{"mlpwi_0", "device"}}),
              two = arena_bytes("custom", {{"mlpwi_0", "device"}, {"query_proj", "device"}});
  EXPECT_LT(full, one);
  EXPECT_LT(one, two);
  EXPECT_LT(two, none);
}

TEST_P(Step, TwoMicrobatchesAreAsOneBatch) {
  if (has_dropout()) GTEST_SKIP() << "each microbatch draws its own dropout";
  Rows rows = random_rows(model, 4, tokens);
  // Of the first two rows nearly all labels count, of the others few.
  for (std::size_t i = rows.labels.size() / 2; i < rows.labels.size(); ++i)
    if (i % 3 != 0) rows.labels[i] = -100;
  decoder::GraphFeatures features = kAlone;
  features.aux = !has_losses_of_layers();
  Result one = run(model, rows, {.features = features, .z_loss = 1e-2});
  Result two = run(model, rows, {.features = features, .microbatches = 2, .z_loss = 1e-2});
  EXPECT_NEAR(one.step.mtp_loss, two.step.mtp_loss, 1e-6 * one.step.mtp_loss);
  EXPECT_EQ(one.step.num_labels, two.step.num_labels);
  EXPECT_NEAR(one.step.loss, two.step.loss, 1e-6 * one.step.loss);
  EXPECT_NEAR(one.step.z_loss, two.step.z_loss, 1e-5 * one.step.z_loss);
  disturbance = 1e-7;
  Result disturbed = run(model, rows, {.features = features, .z_loss = 1e-2});
  expect_near(two.gradients, one.gradients, gradient_tolerance(), disturbed.gradients);
}

TEST_P(Step, PackedDocumentsHaveTheGradientsOfEachInARowOfItsOwn) {
  if (has_dropout()) GTEST_SKIP() << "dropout depends on the place in a row";
  if (model.length_dependent_from()) GTEST_SKIP() << "its rotations depend on the length of a row";
  std::vector<Rows> documents = {random_rows(model, 1, 9, 1), random_rows(model, 1, 3, 2),
                                 random_rows(model, 1, tokens - 14, 3)};
  Rows separate{
      .batch = 3, .tokens = tokens, .ids = {}, .labels = {}, .positions = {}, .segments = {}};
  for (const Rows& document : documents) {
    Rows row = pack({document}, tokens);
    auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(separate.ids, row.ids);
    append(separate.labels, row.labels);
    append(separate.positions, row.positions);
    append(separate.segments, row.segments);
  }
  decoder::GraphFeatures features = train::all_losses();
  features.aux = !has_losses_of_layers();
  Result together = run(model, pack(documents, tokens), {.features = features});
  Result alone = run(model, separate, {.features = features});
  EXPECT_EQ(together.step.num_labels, alone.step.num_labels);
  EXPECT_NEAR(together.step.loss, alone.step.loss, 1e-6 * alone.step.loss);
  disturbance = 1e-7;
  Result disturbed = run(model, separate, {.features = features});
  expect_near(together.gradients, alone.gradients, gradient_tolerance(), disturbed.gradients);
}

TEST_P(Step, OneThreadAndTwoGiveTheSameBits) {
  Rows rows = random_rows(model, 2, tokens);
  for (DType dtype : {DType::f32, DType::bf16}) {
    cpu::set_threads(1, false);
    Result one =
        run(model, rows, {.shape = {.dtype = dtype}, .features = kAlone, .clip_norm = 0.1});
    cpu::set_threads(2, false);
    Result two =
        run(model, rows, {.shape = {.dtype = dtype}, .features = kAlone, .clip_norm = 0.1});
    EXPECT_EQ(one.step.loss, two.step.loss);
    EXPECT_EQ(one.step.gradient_norm, two.step.gradient_norm);
    expect_same_bits(two.gradients, one.gradients, std::string(name(dtype)));
    expect_same_bits(two.updated, one.updated, std::string(name(dtype)) + " updated");
  }
}

TEST_P(Step, WithoutALabelNothingIsLearntAndNothingIsNaN) {
  Rows rows = random_rows(model, 2, tokens);
  rows.labels.assign(rows.labels.size(), -100);
  Result got = run(model, rows,
                   {.features = {.training = true, .aux = !has_losses_of_layers(), .mtp = true}});
  EXPECT_EQ(got.step.num_labels, 0);
  EXPECT_EQ(got.step.loss, 0);
  EXPECT_EQ(got.step.gradient_norm, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Step, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

TEST(TrainStep, ANumberThatIsNoneStopsBeforeAnythingChanges) {
  const TestModel& from = test_models().front();
  decoder::Model model = open_model(from.path);
  auto state = load_state(from, model);
  int poisoned = model.parameters().find("norm.weight");
  ASSERT_GE(poisoned, 0);
  state->masters()[static_cast<std::size_t>(poisoned)][0] = std::nanf("");
  Tensors before = copy_of(model, state->masters());
  Rows rows = random_rows(model, 1, 8);
  train::TrainStep step(model, *state, {.shape = {1, 8}, .features = kAlone}, {},
                        cpu::cpu_backend());
  program::Microbatch batch = rows.microbatch();
  try {
    step.run({&batch, 1}, 1e-3, 41);
    ADD_FAILURE() << "a NaN went through";
  } catch (const train::NumericalError& e) {
    EXPECT_EQ(e.code(), ExitCode::numerical);
    EXPECT_TRUE(std::string(e.what()).starts_with("step 42: the gradient of 'embed.weight' is "))
        << e.what();
  }
  Tensors after = copy_of(model, state->masters());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(same_bits(after[i], before[i]));
  Tensors moments = copy_of(model, state->first_moments());
  for (float m : moments[0]) EXPECT_EQ(m, 0);
}

}  // namespace
}  // namespace lamina::testing
