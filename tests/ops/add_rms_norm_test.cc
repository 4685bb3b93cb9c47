// Cases of add_rms_norm.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

const OpCases kCases = {
    .op = "add_rms_norm",
    .cases = {
        {.name = "weight",
         .inputs = {{.shape = {5, 33}}, {.shape = {5, 33}}, {.shape = {33}}},
         .attrs = {{"eps", 1e-5}}},
        {.name = "no weight", .inputs = {{.shape = {2, 3, 16}}, {.shape = {2, 3, 16}}}},
        {.name = "offset",
         .inputs = {{.shape = {3, 7}}, {.shape = {3, 7}}, {.shape = {7}}},
         .attrs = {{"offset", 1.0}}},
        {.name = "no rows", .inputs = {{.shape = {0, 8}}, {.shape = {0, 8}}, {.shape = {8}}}},
        {.name = "rows of vectors",
         .inputs = {{.shape = {5, 64}}, {.shape = {5, 64}}, {.shape = {64}}},
         .gradient = false},
        {.name = "wide rows",
         .inputs = {{.shape = {2, 2051}}, {.shape = {2, 2051}}, {.shape = {2051}}},
         .gradient = false,
         .large = true},
    }};

LAMINA_TEST_OP(AddRmsNorm, kCases)

}  // namespace
}  // namespace lamina::testing
