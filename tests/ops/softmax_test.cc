// Cases of softmax.
#include <cmath>

#include "support/op_cases.h"

namespace lamina::testing {
namespace {

constexpr double kNone = -INFINITY;

const OpCases kCases = {
    .op = "softmax",
    .cases = {
        {.name = "rows", .inputs = {{.shape = {5, 33}, .low = -4, .high = 4}}},
        {.name = "three dims", .inputs = {{.shape = {2, 3, 8}}}},
        {.name = "width 1", .inputs = {{.shape = {3, 1}}}},
        {.name = "large numbers",
         .inputs = {{.shape = {2, 4}, .values = {1000, 999, 0, -1000, 80, 80, 80, 80}}}},
        {.name = "a row of only -infinity",
         .inputs = {{.shape = {2, 4}, .values = {kNone, kNone, kNone, kNone, 0, kNone, 1, kNone}}},
         .expect =
             [](const std::vector<Doubles>&) {
               const double first = 1 / (1 + std::exp(1));
               return std::vector<Doubles>{{0, 0, 0, 0, first, 0, 1 - first, 0}};
             }},
        {.name = "no rows", .inputs = {{.shape = {0, 8}}}},
    }};

LAMINA_TEST_OP(Softmax, kCases)

}  // namespace
}  // namespace lamina::testing
