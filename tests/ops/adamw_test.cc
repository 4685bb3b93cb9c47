// Cases of adamw.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

OpCase step(std::string name, Shape shape, bool copy) {
  In tensor{.shape = shape, .dtype = DType::f32};
  In positive = tensor;
  positive.low = 0;
  return {.name = std::move(name),
          .inputs = {tensor,
                     tensor,
                     tensor,
                     positive,
                     {.shape = {4}, .dtype = DType::f32, .values = {1e-2, 0.5, 0.19, 0.0199}}},
          .attrs = {{"beta1", 0.9},
                    {"beta2", 0.99},
                    {"eps", 1e-6},
                    {"weight_decay", 0.1},
                    {"copy", std::int64_t{copy}}}};
}

const OpCases kCases = {
    .op = "adamw",
    .dtypes = {DType::f32},
    .cases = {step("a matrix", {5, 33}, false), step("and a copy in bf16", {130}, true),
              step("a number", {}, false), step("nothing", {0}, true)}};

LAMINA_TEST_OP(Adamw, kCases)

}  // namespace
}  // namespace lamina::testing
