// Cases of attention_max.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

const OpCases kCases = {
    .op = "attention_max",
    .cases = {{.name = "causal", .inputs = {{.shape = {2, 5, 3, 4}}, {.shape = {2, 5, 3, 4}}}},
              {.name = "groups",
               .inputs = {{.shape = {1, 17, 4, 3}}, {.shape = {1, 17, 2, 3}}},
               .attrs = {{"scale", 0.5}, {"causal", std::int64_t{0}}}},
              {.name = "capped in a window",
               .inputs = {{.shape = {2, 7, 2, 5}, .low = -3, .high = 3},
                          {.shape = {2, 7, 2, 5}, .low = -3, .high = 3}},
               .attrs = {{"soft_cap", 1.5}, {"window", std::int64_t{3}}}},
              {.name = "documents",
               .inputs = {{.shape = {1, 6, 2, 3}},
                          {.shape = {1, 6, 2, 3}},
                          kAbsent,
                          kAbsent,
                          kAbsent,
                          kAbsent,
                          kAbsent,
                          kAbsent,
                          kAbsent,
                          kAbsent,
                          ints({1, 6}, {1, 1, 2, 2, 2, 0}),
                          ints({1, 6}, {1, 1, 2, 2, 2, 0})}},
              {.name = "one token", .inputs = {{.shape = {1, 1, 2, 3}}, {.shape = {1, 1, 2, 3}}}}}};
LAMINA_TEST_OP(AttentionMax, kCases)

}  // namespace
}  // namespace lamina::testing
