// Cases of linear and linear_group.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

const OpCases kLinear = {
    .op = "linear",
    .cases = {
        {.name = "one row", .inputs = {{.shape = {1, 33}}, {.shape = {17, 33}}}},
        {.name = "three dims, bias",
         .inputs = {{.shape = {2, 3, 20}}, {.shape = {7, 20}}, {.shape = {7}}}},
        {.name = "many rows, bias",
         .inputs = {{.shape = {70, 31}}, {.shape = {65, 31}}, {.shape = {65}}}},
        {.name = "bias in f32",
         .inputs = {{.shape = {5, 8}}, {.shape = {9, 8}}, {.shape = {9}, .dtype = DType::f32}}},
        {.name = "a vector", .inputs = {{.shape = {16}}, {.shape = {3, 16}}}},
        {.name = "no rows", .inputs = {{.shape = {0, 8}}, {.shape = {4, 8}}}},
    }};

// Weights first, then the biases, if any.
const OpCases kGroup = {
    .op = "linear_group",
    .cases = {
        {.name = "one row, no bias",
         .inputs =
             {{.shape = {1, 40}}, {.shape = {24, 40}}, {.shape = {8, 40}}, {.shape = {8, 40}}},
         .attrs = {{"biases", std::vector<std::int64_t>{0, 0, 0}}}},
        {.name = "some biases",
         .inputs = {{.shape = {3, 12}},
                    {.shape = {5, 12}},
                    {.shape = {6, 12}},
                    {.shape = {7, 12}},
                    {.shape = {5}},
                    {.shape = {7}}},
         .attrs = {{"biases", std::vector<std::int64_t>{1, 0, 1}}}},
        {.name = "many rows",
         .inputs =
             {{.shape = {2, 40, 16}}, {.shape = {33, 16}}, {.shape = {20, 16}}, {.shape = {20}}},
         .attrs = {{"biases", std::vector<std::int64_t>{0, 1}}}},
        {.name = "no rows",
         .inputs = {{.shape = {0, 16}}, {.shape = {3, 16}}, {.shape = {2, 16}}},
         .attrs = {{"biases", std::vector<std::int64_t>{0, 0}}}},
    }};

LAMINA_TEST_OP(Linear, kLinear)
LAMINA_TEST_OP(LinearGroup, kGroup)

}  // namespace
}  // namespace lamina::testing
