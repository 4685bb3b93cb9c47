// Cases of rms_norm and its gradient.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

const OpCases kCases = {
    .op = "rms_norm",
    .cases = {
        {.name = "weight",
         .inputs = {{.shape = {5, 33}}, {.shape = {33}}},
         .attrs = {{"eps", 1e-5}}},
        {.name = "no weight", .inputs = {{.shape = {2, 3, 16}}}},
        {.name = "offset",
         .inputs = {{.shape = {3, 7}}, {.shape = {7}}},
         .attrs = {{"offset", 1.0}}},
        {.name = "weight in f32",
         .inputs = {{.shape = {3, 65}}, {.shape = {65}, .dtype = DType::f32}}},
        {.name = "width 1", .inputs = {{.shape = {4, 1}}, {.shape = {1}}}, .attrs = {{"eps", 0.5}}},
        {.name = "no rows", .inputs = {{.shape = {0, 8}}, {.shape = {8}}}},
        {.name = "rows of vectors",
         .inputs = {{.shape = {37, 64}}, {.shape = {64}, .dtype = DType::f32}},
         .gradient = false},
        {.name = "wide rows",
         .inputs = {{.shape = {2, 2051}}, {.shape = {2051}}},
         .gradient = false,
         .large = true},
        {.name = "a wide row of vectors",
         .inputs = {{.shape = {1, 8200}}, {.shape = {8200}}},
         .gradient = false,
         .large = true},
    }};

const OpCases kGrad = {
    .op = "rms_norm_grad",
    .cases = {
        {.name = "weight",
         .inputs = {{.shape = {70, 33}}, {.shape = {33}}, {.shape = {70, 33}}},
         .attrs = {{"eps", 1e-5}},
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

LAMINA_TEST_OP(RmsNorm, kCases)
LAMINA_TEST_OP(RmsNormGrad, kGrad)

}  // namespace
}  // namespace lamina::testing
