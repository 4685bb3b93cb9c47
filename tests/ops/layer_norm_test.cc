// Cases of layer_norm and its gradient.
#include "ops/tensor.h"
#include "support/expect_error.h"
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

const OpCases kCases = {
    .op = "layer_norm",
    .cases = {
        {.name = "weight and bias",
         .inputs = {{.shape = {5, 33}}, {.shape = {33}}, {.shape = {33}}}},
        {.name = "weight",
         .inputs = {{.shape = {2, 3, 16}}, {.shape = {16}}},
         .attrs = {{"eps", 1e-3}}},
        {.name = "neither", .inputs = {{.shape = {3, 7}}}},
        {.name = "bias and offset",
         .inputs = {{.shape = {3, 7}}, {.shape = {7}}, {.shape = {7}}},
         .attrs = {{"offset", 1.0}}},
        {.name = "weight in f32, bias as x",
         .inputs = {{.shape = {3, 7}}, {.shape = {7}, .dtype = DType::f32}, {.shape = {7}}}},
        {.name = "no rows", .inputs = {{.shape = {0, 8}}, {.shape = {8}}, {.shape = {8}}}},
        {.name = "rows of vectors",
         .inputs = {{.shape = {37, 64}}, {.shape = {64}}, {.shape = {64}}},
         .gradient = false},
        {.name = "wide rows",
         .inputs = {{.shape = {2, 2051}}, {.shape = {2051}}, {.shape = {2051}}},
         .gradient = false,
         .large = true},
    }};

const OpCases kGrad = {
    .op = "layer_norm_grad",
    .cases = {
        {.name = "weight",
         .inputs = {{.shape = {70, 33}}, {.shape = {33}}, {.shape = {70, 33}}},
         .gradient = false},
        {.name = "no weight",
         .inputs = {{.shape = {2, 3, 16}}, kAbsent, {.shape = {2, 3, 16}}},
         .gradient = false},
        {.name = "offset",
         .inputs = {{.shape = {3, 7}}, {.shape = {7}}, {.shape = {3, 7}}},
         .attrs = {{"offset", 1.0}},
         .gradient = false},
        {.name = "no rows",
         .inputs = {{.shape = {0, 8}}, {.shape = {8}}, {.shape = {0, 8}}},
         .gradient = false},
        {.name = "rows of vectors",
         .inputs = {{.shape = {300, 64}}, {.shape = {64}}, {.shape = {300, 64}}},
         .gradient = false},
        {.name = "wide rows",
         .inputs = {{.shape = {3, 1027}}, {.shape = {1027}}, {.shape = {3, 1027}}},
         .gradient = false,
         .large = true},
    }};

LAMINA_TEST_OP(LayerNorm, kCases)
LAMINA_TEST_OP(LayerNormGrad, kGrad)

TEST(LayerNorm, HasWeightsAndBiasesOfFloats) {
  Graph g;
  const Tensor x = g.add_input("x", {DType::f32, {2, 3}, {}});
  const Tensor floats = g.add_input("w", {DType::f32, {3}, {}});
  const Tensor integers = g.add_input("i", {DType::i32, {3}, {}});
  EXPECT_ERROR_SAYS(ops::layer_norm(x, integers, {}), ExitCode::usage,
                    "w must have a floating-point dtype, got i32[3]");
  EXPECT_ERROR_SAYS(ops::layer_norm(x, floats, integers), ExitCode::usage,
                    "bias must have a floating-point dtype, got i32[3]");
}

}  // namespace
}  // namespace lamina::testing
