// Cases of softmax.
#include <algorithm>
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
        {.name = "a row with NaN is NaN, and so is one with infinity",
         .inputs = {{.shape = {4, 4},
                     .values = {NAN, 1, 2, 3, 1, -INFINITY, NAN, 2, INFINITY, 1, 2, 3, 0, 0, 0,
                                0}}},
         .expect =
             [](const std::vector<Doubles>&) {
               Doubles y(16, NAN);
               std::fill(y.begin() + 12, y.end(), 0.25);
               return std::vector<Doubles>{y};
             },
         .gradient = false},
        {.name = "NaN beside -infinity",
         .inputs = {{.shape = {1, 3}, .values = {kNone, NAN, kNone}}},
         .gradient = false},
        {.name = "no rows", .inputs = {{.shape = {0, 8}}}},
    }};

LAMINA_TEST_OP(Softmax, kCases)

}  // namespace
}  // namespace lamina::testing
