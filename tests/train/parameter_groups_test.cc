// [[optimizer.groups]]: frozen parameters stay bit-equal and need no work; the others train as
// without groups.
#include "train/optimizer/parameter_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "backends/cpu/backend.h"
#include "inspect/plan/model_plan.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using config::ParameterGroup;
using Groups = std::vector<ParameterGroup>;
using Values = std::vector<std::vector<float>>;

constexpr decoder::GraphShape kGroupShape{.batch = 2, .tokens = 10};
constexpr int kGroupSteps = 3;

ParameterGroup frozen(const std::string& pattern) { return {.match = pattern, .frozen = true}; }

struct Learned {
  Values before, after;
  std::vector<bool> has_gradient, has_moments;
  std::size_t state_bytes = 0;
};

Learned learn(const TestModel& from, decoder::Model& model,
              const config::OptimizerSection& optimizer, DType dtype = DType::f32,
              int steps = kGroupSteps, double lr = 1e-2) {
  decoder::GraphShape shape = kGroupShape;
  shape.dtype = dtype;
  train::set_learning(model, optimizer, shape);
  const train::TrainStepOptions options{.shape = shape, .clip_norm = 0};
  decoder::ModelGraph graph = train::step_graph(model, options);
  train::TrainState state(model.parameters(), dtype, false, cpu::cpu_backend(),
                          train::gradient_lists(graph, model.parameters(), 1));
  const auto loaded = load_state(from, model);
  for (std::size_t i = 0; i < state.masters().size(); ++i)
    std::copy_n(floats(loaded->masters()[i]), model.parameters().all()[i].num_elements(),
                floats(state.masters()[i]));
  state.refresh_copies();
  Learned out{.before = copy_of(model, state.masters())};
  train::TrainStep step(model, std::move(graph), state, options, optimizer, cpu::cpu_backend());
  for (int s = 0; s < steps; ++s) {
    const Rows rows = random_rows(model, shape.batch, shape.tokens, static_cast<unsigned>(s) + 1);
    const program::Microbatch batch = rows.microbatch();
    step.run({&batch, 1}, lr, s);
  }
  out.after = copy_of(model, state.masters());
  out.state_bytes = state.bytes();
  for (std::size_t i = 0; i < out.after.size(); ++i) {
    out.has_gradient.push_back(floats(state.gradients()[i]) != nullptr);
    out.has_moments.push_back(floats(state.first_moments()[i]) ||
                              floats(state.second_moments()[i]));
  }
  return out;
}

Learned learn(const TestModel& from, const Groups& groups, DType dtype = DType::f32) {
  decoder::Model model = open_model(from.path);
  config::OptimizerSection optimizer;
  optimizer.groups = groups;
  return learn(from, model, optimizer, dtype);
}

// Expects exactly the parameters whose names `is_frozen` accepts to be frozen.
void expect_frozen(const TestModel& from, const Groups& groups,
                   const std::function<bool(const std::string&)>& is_frozen) {
  const decoder::Model model = open_model(from.path);
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Learned got = learn(from, groups, dtype);
    for (std::size_t i = 0; i < got.before.size(); ++i) {
      const decoder::Parameter& p = model.parameters().all()[i];
      if (!p.desc.trained) continue;
      SCOPED_TRACE(p.name);
      EXPECT_EQ(got.has_gradient[i], !is_frozen(p.name));
      EXPECT_EQ(got.has_moments[i], !is_frozen(p.name));
      EXPECT_EQ(same_bits(got.before[i], got.after[i]), is_frozen(p.name));
    }
  }
}

TEST(ParameterGroups, FrozenParametersStayBitEqualWithoutGradientsAndMoments) {
  expect_frozen(test_model("llama2_deep"), {frozen("embed.*"), frozen("*norm*")},
                [](const std::string& name) {
                  return name.starts_with("embed.") || name.find("norm") != name.npos;
                });
}

TEST(ParameterGroups, TheFirstThatFitsCounts) {
  expect_frozen(test_model("llama2_deep"),
                {{.match = "*.wq.*", .lr_scale = 1.0},
                 frozen("*attention*"),
                 {.role = "head", .frozen = true}},
                [](const std::string& name) {
                  return name == "head.weight" ||
                         (name.find("attention") != name.npos && name.find(".wq.") == name.npos);
                });
}

TEST(ParameterGroups, PatternsMayBeAlternativesAndTheirOpposite) {
  const auto is_one = [](const std::string& name) {
    return name.find("norm") != name.npos || name.starts_with("embed.");
  };
  expect_frozen(test_model("llama2_deep"), {frozen("@(*norm*|embed.*)")}, is_one);
  expect_frozen(test_model("llama2_deep"), {frozen("!(*norm*|embed.*)")},
                [&](const std::string& name) { return !is_one(name); });
}

// Experts have one bias each, in a tensor of two dims, which does not decay, like other biases.
TEST(WeightDecay, AppliesToMatricesByRole) {
  const decoder::Model model = open_model(test_model("gpt_oss_predicts").path);
  int biases_of_experts = 0;
  for (const decoder::Parameter& p : model.parameters().all()) {
    SCOPED_TRACE(p.name);
    const bool is_matrix = p.name.ends_with(".weight") && p.name.find("norm") == std::string::npos;
    EXPECT_EQ(p.decays(), is_matrix);
    biases_of_experts += p.name.ends_with(".bias") && p.desc.shape.ndim() == 2;
  }
  EXPECT_GT(biases_of_experts, 0);
}

// The stack is scanned: it is cut at layers that train while others of the same block are frozen.
TEST(ParameterGroups, LayersOfAScanCanBeFrozenOneByOne) {
  const TestModel& from = test_model("llama2_deep");
  decoder::Model model = open_model(from.path);
  ASSERT_EQ(model.stack().segments.size(), 1u);
  ASSERT_GE(model.stack().num_layers(), 4);
  expect_frozen(from, {frozen("layers.[02].*")}, [](const std::string& name) {
    return name.starts_with("layers.0.") || name.starts_with("layers.2.");
  });
  train::set_learning(model, {.groups = {frozen("layers.[01].*")}}, kGroupShape);
  EXPECT_EQ(model.stack().segments.size(), 2u);
  train::set_learning(model, {}, kGroupShape);
  EXPECT_EQ(model.stack().segments.size(), 1u);
}

TEST(ParameterGroups, OtherParametersAreBitEqualToAStepWithoutGroups) {
  const TestModel& from = test_model("llama2_deep");
  decoder::Model all_learn = open_model(from.path), one_frozen = open_model(from.path);
  const Learned whole = learn(from, all_learn, {}, DType::f32, 1),
                part = learn(from, one_frozen, {.groups = {frozen("embed.*")}}, DType::f32, 1);
  for (std::size_t i = 0; i < whole.after.size(); ++i) {
    const std::string& name = all_learn.parameters().all()[i].name;
    if (name.starts_with("embed.")) continue;
    EXPECT_TRUE(same_bits(whole.after[i], part.after[i])) << name;
  }
}

// Only the head trains: no layer runs a backward pass or keeps values for it.
TEST(ParameterGroups, TheBackwardPassSkipsWorkForFrozenParameters) {
  const TestModel& from = test_model("llama2_deep");
  decoder::Model model = open_model(from.path);
  const inspect::PlanOptions options{.batch = 2, .tokens = 10, .dtype = DType::f32};
  const auto plan = [&] { return inspect::plan_model(model, options, cpu::cpu_backend()); };
  const inspect::ModelPlan whole = plan();
  EXPECT_EQ(whole.work.train_flops, 3 * whole.work.forward_flops);
  train::set_learning(model, {.groups = {{.role = "head", .lr_scale = 1.0}, frozen("*")}},
                      kGroupShape);
  const inspect::ModelPlan head = plan();
  const auto head_flops = 2.0 * static_cast<double>(model.vocab_size() * model.hidden_size());
  EXPECT_EQ(head.work.train_flops, whole.work.forward_flops + head_flops);
  train::set_learning(model, {.groups = {frozen("norm.weight")}}, kGroupShape);
  EXPECT_EQ(plan().work.train_flops, whole.work.train_flops);
  train::set_learning(model, {.groups = {frozen("layers.*")}}, kGroupShape);
  const inspect::ModelPlan inputs_only = plan();
  EXPECT_GT(inputs_only.work.train_flops, 1.9 * whole.work.forward_flops);
  EXPECT_LT(inputs_only.work.train_flops, 2.4 * whole.work.forward_flops);
  const std::int64_t learns = model.vocab_size() * model.hidden_size();
  EXPECT_EQ(head.train.frozen, model.parameters().num_elements() - learns);
  EXPECT_EQ(head.train.bytes.weights, whole.train.bytes.weights);
  EXPECT_LT(head.train.bytes.moments, 8 * static_cast<std::size_t>(learns) + 2 * 64);
  EXPECT_LT(head.train.bytes.gradients, 4 * static_cast<std::size_t>(learns) + 64);
  EXPECT_LT(2 * head.remat.front().kept_bytes, whole.remat.front().kept_bytes);
}

TEST(ParameterGroups, ScaleTheLearningRateAndReplaceTheDecay) {
  const TestModel& from = test_model("llama2_deep");
  auto learned = [&](const config::OptimizerSection& optimizer, double lr) {
    decoder::Model model = open_model(from.path);
    return learn(from, model, optimizer, DType::f32, 1, lr).after;
  };
  const Values half = learned({.weight_decay = 0.1}, 0.5e-2),
               decayed = learned({.weight_decay = 0.3}, 1e-2),
               usual = learned({.weight_decay = 0.1}, 1e-2),
               got = learned({.weight_decay = 0.1,
                              .groups = {{.match = "embed.*", .lr_scale = 0.5},
                                         {.match = "*.wq.*", .weight_decay = 0.3}}},
                             1e-2);
  const decoder::Model model = open_model(from.path);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::string& name = model.parameters().all()[i].name;
    const Values& want = name.starts_with("embed.")               ? half
                         : name.find(".wq.") != std::string::npos ? decayed
                                                                  : usual;
    EXPECT_TRUE(same_bits(got[i], want[i])) << name;
  }
}

// The decay of a group also applies to vectors, which have none by default.
TEST(ParameterGroups, CanDecayNorms) {
  const TestModel& from = test_model("llama2_deep");
  decoder::Model model = open_model(from.path);
  train::set_learning(model, {.groups = {{.role = "norm", .weight_decay = 0.5}}}, kGroupShape);
  const Learned with = learn(from, {{.role = "norm", .weight_decay = 0.5}}),
                without = learn(from, Groups{});
  const auto norm = static_cast<std::size_t>(model.parameters().find("norm.weight"));
  EXPECT_LT(with.after[norm][0], without.after[norm][0] * 0.99);
}

// The update rule of a layer (the bias that balances experts) does not change frozen parameters.
TEST(ParameterGroups, UpdatesOfLayersLeaveFrozenParametersAlone) {
  const TestModel& from = test_model("features_losses");
  const decoder::Model model = open_model(from.path);
  const Learned moved = learn(from, Groups{}), still = learn(from, {frozen("*.bias")});
  std::size_t biases = 0;
  for (std::size_t i = 0; i < still.after.size(); ++i) {
    if (model.parameters().all()[i].desc.name != "bias") continue;
    ++biases;
    EXPECT_FALSE(same_bits(moved.before[i], moved.after[i]));
    EXPECT_TRUE(same_bits(still.before[i], still.after[i]));
  }
  EXPECT_GT(biases, 0u);
}

TEST(ParameterGroups, ThatHaveNoEffectAreRefused) {
  decoder::Model model = open_model(test_model("llama2_deep").path);
  auto set = [&](const Groups& groups) {
    train::set_learning(model, {.groups = groups}, kGroupShape);
  };
  EXPECT_USER_ERROR(set({frozen("embd.*")}), 2,
                    "optimizer.groups: group 0, {match = \"embd.*\"}, matches no parameter of this "
                    "model\n  did you mean match = \"embed.*\"?");
  EXPECT_USER_ERROR(set({frozen("layers.*.atention*")}), 2,
                    "optimizer.groups: group 0, {match = \"layers.*.atention*\"}, matches no "
                    "parameter of this model\n  did you mean match = \"layers.*.attention*\"?");
  EXPECT_USER_ERROR(
      set({frozen("*norm*"), {.group = "teacher", .frozen = true}}), 2,
      "optimizer.groups: group 1, {group = \"teacher\"}, matches no parameter of this "
      "model\n  the model has no groups; give a match or a role");
  EXPECT_USER_ERROR(
      set({frozen("*"), frozen("embed.*")}), 2,
      "optimizer.groups: group 1, {match = \"embed.*\"}, has no effect: every "
      "parameter that it fits belongs to an earlier group\n  the first group that fits a "
      "parameter counts; put the narrow ones first");
  EXPECT_USER_ERROR(
      set({{.match = "*"}}), 2,
      "optimizer.groups: group 0, {match = \"*\"}, says nothing about its parameters; "
      "give frozen, lr_scale, multiplier or weight_decay");
  EXPECT_USER_ERROR(set({{.frozen = true}}), 2,
                    "optimizer.groups: group 0, {}, does not say which parameters it is for; give "
                    "match, group or "
                    "role");
  EXPECT_USER_ERROR(set({{.match = "*", .frozen = true, .lr_scale = 2.0}}), 2,
                    "optimizer.groups: group 0, {match = \"*\"}, is frozen, so its other keys "
                    "have no effect; remove them");
  EXPECT_USER_ERROR(set({{.match = "norm.weight", .split_rows = {15, 15}}}), 2,
                    "optimizer.groups: group 0, {match = \"norm.weight\"}, splits the 0 rows of "
                    "'norm.weight' into 15 + 15\n  the numbers must have the sum of the rows");
  // The sum of these numbers is the number of rows after an overflow of 64 bits.
  const auto matrix =
      std::ranges::find_if(model.parameters().all(),
                           [](const decoder::Parameter& p) { return p.desc.shape.ndim() == 2; });
  EXPECT_ERROR_SAYS(set({{.match = matrix->name,
                          .split_rows = {INT64_MAX, INT64_MAX, matrix->desc.shape[-2] + 2}}}),
                    2, "'" + matrix->name + "' into 9223372036854775807 + 9223372036854775807 + ");
  EXPECT_USER_ERROR(set({frozen("*")}), 2,
                    "optimizer.groups: every parameter is frozen, so there is nothing to learn\n"
                    "  freeze fewer, eg: by a narrower match");
}

}  // namespace
}  // namespace lamina::testing
