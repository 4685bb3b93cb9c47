// Updates, metrics and losses of layers in every element type, for every compute type.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "backends/cpu/backend.h"
#include "conformance/numbers/compare.h"
#include "conformance/subjects/rows.h"
#include "decoder/one_block_family.h"
#include "support/expect_error.h"
#include "support/tensors.h"
#include "train/loop/train_step.h"
#include "weights/weights.h"

namespace lamina::train {
namespace {

using sdk::Tensor;

// The element type and the rule of the block below.
std::string type_of_value;
sdk::Update rule_of_update;

// f32[3]: 2, 2, 2 in the type of the case.
Tensor twos(sdk::Scope s) {
  return sdk::cast(sdk::constant(s, {.shape = {3}, .value = 2}), type_of_value);
}

const decoder::Build kWithUpdate = LAMINA_BLOCK({
  const Tensor p = s.param(
      "p", {3},
      {.axes = {sdk::axis::none}, .init = sdk::init::constant(7), .flags = LAMINA_PARAM_BUFFER});
  step.update(s, "p", twos(s), rule_of_update);
  // It depends on the layer's own values, so that no pass moves it out of the layers.
  s.param("q", {4}, {.axes = {sdk::axis::none}, .flags = LAMINA_PARAM_BUFFER});
  Tensor of_layer = sdk::cast_like(sdk::reduce_sum(p, {.dims = {0}, .keep = true}), p);
  step.update(s, "q", sdk::cast(sdk::broadcast(of_layer, {4}), type_of_value), sdk::Update::assign);
  return x;
});

const decoder::Build kWithMetric = LAMINA_BLOCK({
  step.metric("m", twos(s));
  step.loss("l", sdk::reduce_sum(twos(s), {.dims = {0}}));
  return x;
});

// A step of a model with two layers of the block, and the state after it.
struct Step {
  Step(decoder::Build block, DType compute) : model(decoder::open_family_with(block)) {
    const Backend& backend = cpu::cpu_backend();
    state = std::make_unique<TrainState>(model.parameters(), compute, true, backend);
    const weights::Weights weights = weights::Weights::initialise(model, 1, DType::f32, backend);
    const auto values = conformance::copy_of(model, weights.pointers(), backend);
    for (std::size_t i = 0; i < values.size(); ++i)
      std::ranges::copy(values[i], lamina::testing::floats(state->masters()[i]));
    state->refresh_copies();
    const program::Rows rows = conformance::random_rows(model, 2, 6);
    const std::vector<program::Microbatch> batches = {rows.microbatch(0), rows.microbatch(1)};
    TrainStep step(model, *state, {.shape = {1, 6, compute}, .microbatches = 2}, {}, backend);
    result = step.run(batches, 1e-3, 0);
  }
  std::vector<float> values(const std::string& name) const {
    const int index = model.parameters().find(name);
    EXPECT_GE(index, 0) << name;
    return conformance::copy_of(model, state->masters(),
                                cpu::cpu_backend())[static_cast<std::size_t>(index)];
  }

  decoder::Model model;
  std::unique_ptr<TrainState> state;
  StepResult result;
};

constexpr const char* kTypes[] = {"f32", "bf16", "f16", "f64", "i32", "i64", "bool"};

TEST(ValuesOfLayers, AnUpdateInAnyTypeChangesAParameterLikeOneInFloat32) {
  for (const DType compute : {DType::f32, DType::bf16})
    for (const char* type : kTypes)
      for (const sdk::Update rule :
           {sdk::Update::add, sdk::Update::sign_step, sdk::Update::assign}) {
        SCOPED_TRACE(std::string(type) + " in " + std::string(name(compute)));
        type_of_value = type;
        rule_of_update = rule;
        const Step step(kWithUpdate, compute);
        const float two = type_of_value == "bool" ? 1 : 2;
        const float expected = rule == sdk::Update::add         ? 7 + two
                               : rule == sdk::Update::sign_step ? 8
                                                                : two;
        const float sum = type_of_value == "bool" ? 1 : 21;
        for (const char* layer : {"layers.0.", "layers.1."}) {
          EXPECT_EQ(step.values(layer + std::string("p")), std::vector<float>(3, expected));
          EXPECT_EQ(step.values(layer + std::string("q")), std::vector<float>(4, sum));
        }
      }
}

TEST(ValuesOfLayers, MetricsAndLossesInAnyFloatingTypeEqualFloat32) {
  for (const DType compute : {DType::f32, DType::bf16})
    for (const char* type : {"f32", "bf16", "f16", "f64"}) {
      type_of_value = type;
      const Step step(kWithMetric, compute);
      std::map<std::string, double> found;
      for (const AuxScalar& scalar : step.result.aux_scalars) found[scalar.name] = scalar.value;
      EXPECT_EQ(found["l"], 12) << type;
      for (const char* metric : {"m/layer_000/max", "m/layer_000/mean", "m/layer_001/mean"})
        EXPECT_EQ(found[metric], 2) << type;
    }
}

TEST(ValuesOfLayers, AnIntegerMetricIsRefusedByName) {
  type_of_value = "i32";
  EXPECT_ERROR_SAYS(decoder::open_family_with(kWithMetric), ExitCode::plugin,
                    "'m' must be floating-point, got i32[3]");
}

template <std::uint32_t dtype>
const decoder::Build kWithParameterOf = LAMINA_BLOCK({
  s.param("p", {3}, {.axes = {sdk::axis::none}, .flags = LAMINA_PARAM_BUFFER, .dtype = dtype});
  return x;
});

TEST(ParametersOfLayers, BooleansAreRefusedByName) {
  EXPECT_ERROR_SAYS(decoder::open_family_with(kWithParameterOf<LAMINA_DTYPE_BOOL>),
                    ExitCode::plugin,
                    "parameter 'p' has the element type bool; expected f32, bf16, f16, f64, i32 or "
                    "i64");
}

TEST(ParametersOfLayers, DoublesAreRefusedByTraining) {
  EXPECT_ERROR_SAYS(Step(kWithParameterOf<LAMINA_DTYPE_F64>, DType::f32), ExitCode::plugin,
                    "parameter 'layers.0.p': is declared f64; training has parameters in f32, "
                    "bf16 or integers");
}

}  // namespace
}  // namespace lamina::train
