// Cases of sinkhorn and its gradient.
#include "ops/tensor.h"
#include "support/expect_error.h"
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

const OpCases kCases = {
    .op = "sinkhorn",
    .cases = {{.name = "four streams",
               .inputs = {{.shape = {2, 3, 4, 4}, .low = -3, .high = 3}},
               .attrs = {{"iterations", std::int64_t{5}}, {"eps", 1e-6}}},
              {.name = "one round",
               .inputs = {{.shape = {3, 3}}},
               .attrs = {{"iterations", std::int64_t{1}}, {"eps", 1e-3}}},
              {.name = "more than a kernel's 16",
               .inputs = {{.shape = {17, 17}}},
               .attrs = {{"iterations", std::int64_t{2}}},
               .gradient = false},
              {.name = "six streams", .inputs = {{.shape = {3, 6, 6}}}},
              {.name = "sixteen streams", .inputs = {{.shape = {11, 16, 16}}}, .gradient = false},
              {.name = "one stream", .inputs = {{.shape = {2, 1, 1}}}}}};

const OpCases kGrad = {
    .op = "sinkhorn_grad",
    .cases = {{.name = "four streams",
               .inputs = {{.shape = {30, 3, 4, 4}, .low = -3, .high = 3}, {.shape = {30, 3, 4, 4}}},
               .attrs = {{"iterations", std::int64_t{5}}, {"eps", 1e-6}},
               .gradient = false},
              {.name = "one round",
               .inputs = {{.shape = {3, 3}}, {.shape = {3, 3}}},
               .attrs = {{"iterations", std::int64_t{1}}, {"eps", 1e-3}},
               .gradient = false},
              {.name = "six streams",
               .inputs = {{.shape = {3, 6, 6}}, {.shape = {3, 6, 6}}},
               .gradient = false},
              {.name = "sixteen streams",
               .inputs = {{.shape = {11, 16, 16}}, {.shape = {11, 16, 16}}},
               .gradient = false},
              {.name = "more than a kernel's 16",
               .inputs = {{.shape = {17, 17}}, {.shape = {17, 17}}},
               .attrs = {{"iterations", std::int64_t{2}}},
               .gradient = false},
              {.name = "no matrices",
               .inputs = {{.shape = {0, 2, 2}}, {.shape = {0, 2, 2}}},
               .gradient = false}}};

LAMINA_TEST_OP(Sinkhorn, kCases)
LAMINA_TEST_OP(SinkhornGrad, kGrad)

TEST(Sinkhorn, HasABoundedNumberOfIterations) {
  Graph g;
  const Tensor x = g.add_input("x", {DType::f32, {2, 2}, {}});
  for (const std::int64_t iterations : {std::int64_t{0}, std::int64_t{1} << 40})
    EXPECT_ERROR_SAYS(ops::sinkhorn(x, {.iterations = iterations}), ExitCode::usage,
                      "iterations must be from 1 to 1000");
}

}  // namespace
}  // namespace lamina::testing
