// Cases of softmax.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

const OpCases kCases = {
    .op = "softmax",
    .cases = {
        {.name = "rows", .inputs = {{.shape = {5, 33}, .low = -4, .high = 4}}},
        {.name = "three dims", .inputs = {{.shape = {2, 3, 8}}}},
        {.name = "width 1", .inputs = {{.shape = {3, 1}}}},
        {.name = "large numbers",
         .inputs = {{.shape = {2, 4}, .values = {1000, 999, 0, -1000, 80, 80, 80, 80}}}},
        {.name = "no rows", .inputs = {{.shape = {0, 8}}}},
    }};

LAMINA_TEST_OP(Softmax, kCases)

}  // namespace
}  // namespace lamina::testing
