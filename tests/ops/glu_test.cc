// Cases of glu.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

OpCase with_activation(const char* name) {
  return {.name = name,
          .inputs = {{.shape = {3, 17}, .low = -2, .high = 2}, {.shape = {3, 17}}},
          .attrs = {{"activation", std::string(name)}}};
}

const OpCases kCases = {
    .op = "glu",
    .cases = {with_activation("silu"),
              with_activation("gelu"),
              with_activation("gelu_tanh"),
              with_activation("relu"),
              with_activation("sigmoid"),
              {.name = "nothing", .inputs = {{.shape = {0, 4}}, {.shape = {0, 4}}}}}};

LAMINA_TEST_OP(Glu, kCases)

}  // namespace
}  // namespace lamina::testing
