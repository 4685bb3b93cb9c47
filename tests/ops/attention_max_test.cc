// Cases of attention_max.
#include <cmath>

#include "support/op_cases.h"

namespace lamina::testing {
namespace {

// The keys of the second head are NaN from token 3 to 5; the other heads do not see them.
OpCase with_nan(std::int64_t tokens) {
  In k{.shape = {2, tokens, 3, 4}};
  for (std::int64_t i = 0; i < k.shape.num_elements(); ++i) {
    const std::int64_t token = i / 12 % tokens;
    const bool is_nan = i / 4 % 3 == 1 && token >= 3 && token <= 5;
    k.values.push_back(is_nan ? NAN : static_cast<double>(i * 2654435761 % 17) / 8 - 1);
  }
  return {.name = "NaN among " + std::to_string(tokens) + " keys",
          .inputs = {{.shape = {2, tokens, 3, 4}}, k}};
}

// Keys 0 and 1 of the second head are infinite, and key `nan` is NaN; -1: none is.
OpCase with_infinity_and_nan(std::int64_t tokens, std::int64_t nan) {
  In k{.shape = {1, tokens, 2, 1}};
  for (std::int64_t i = 0; i < 2 * tokens; ++i)
    k.values.push_back(i % 2 == 0     ? static_cast<double>(i % 7)
                       : i / 2 < 2    ? INFINITY
                       : i / 2 == nan ? NAN
                                      : 1.0);
  return {.name = "infinity and NaN at " + std::to_string(nan),
          .inputs = {{.shape = {1, tokens, 2, 1}, .low = 0.5}, k},
          .attrs = {{"causal", std::int64_t{0}}}};
}

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
              with_nan(7),
              with_nan(80),
              with_infinity_and_nan(7, 2),
              with_infinity_and_nan(80, 20),
              with_infinity_and_nan(80, 70),
              with_infinity_and_nan(80, -1),
              {.name = "one token", .inputs = {{.shape = {1, 1, 2, 3}}, {.shape = {1, 1, 2, 3}}}}}};
LAMINA_TEST_OP(AttentionMax, kCases)

}  // namespace
}  // namespace lamina::testing
