// Every model of the tests, and so every family and every block (decoder/test_models_test.cc),
// compiles for the GPU: each node has a kernel or is lowered to nodes that have one.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "cuda/gpu.h"
#include "program/bound_program.h"
#include "support/goldens.h"
#include "support/models.h"
#include "train/loop/train_step.h"

namespace lamina::testing {
namespace {

// A missing kernel fails the test with the node that has none.
void expect_compiles(const char* phase, const std::function<decoder::ModelGraph(DType)>& graph) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    try {
      program::BoundProgram(graph(dtype), emulated_gpu());
    } catch (const DeviceError& e) {
      ADD_FAILURE() << phase << " in " << name(dtype) << ": " << e.what();
    }
  }
}

class GpuModel : public ::testing::TestWithParam<TestModel> {
 protected:
  const decoder::Model model = open_model(GetParam().path);
  const std::int64_t tokens = test_tokens(model);
};

TEST_P(GpuModel, CompilesForTraining) {
  expect_compiles("training", [&](DType dtype) {
    return train::step_graph(model, {.shape = {2, tokens, dtype}, .microbatches = 2});
  });
}

TEST_P(GpuModel, CompilesForPrefillAndDecoding) {
  if (!model.is_autoregressive()) GTEST_SKIP() << "it is never decoded";
  const std::int64_t call = std::min<std::int64_t>(tokens, 8);
  for (const std::int64_t length : {call, std::int64_t{1}})
    expect_compiles(length == 1 ? "decoding" : "prefill", [&](DType dtype) {
      return model.decode_graph({2, length, dtype}, {tokens, call});
    });
}

TEST_P(GpuModel, CompilesForEvaluation) {
  expect_compiles("evaluation", [&](DType dtype) {
    return model.forward_graph({2, tokens, dtype});
  });
}

INSTANTIATE_TEST_SUITE_P(All, GpuModel, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
