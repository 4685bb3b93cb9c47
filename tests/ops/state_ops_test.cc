// Cases of the ops on decode state: cache_write and select_rows.
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

// Writes update[B, T, width] to the slots start + t of cache[B, C, width].
auto written(std::size_t capacity, std::size_t tokens, std::size_t width, bool ring) {
  return [=](const std::vector<Doubles>& in) {
    Doubles y = in[0];
    for (std::size_t b = 0; b < in[2].size(); ++b)
      for (std::size_t t = 0; t < tokens; ++t) {
        auto slot = static_cast<std::size_t>(in[2][b]) + t;
        if (ring) slot %= capacity;
        for (std::size_t i = 0; i < width; ++i)
          y[(b * capacity + slot) * width + i] = in[1][(b * tokens + t) * width + i];
      }
    return std::vector<Doubles>{y};
  };
}

const OpCases kWrite = {
    .op = "cache_write",
    .dtypes = {DType::f32, DType::bf16, DType::i32},
    .cases = {
        {.name = "two rows",
         .inputs = {{.shape = {2, 8, 3, 5}, .high = 9},
                    {.shape = {2, 2, 3, 5}, .high = 9},
                    ints({2}, {0, 6})},
         .expect = written(8, 2, 15, false)},
        {.name = "ring",
         .inputs = {{.shape = {2, 4, 3}, .high = 9},
                    {.shape = {2, 3, 3}, .high = 9},
                    ints({2}, {7, 1})},
         .attrs = {{"ring", std::int64_t{1}}},
         .expect = written(4, 3, 3, true)},
        {.name = "slots 1 to 2 as a ring",
         .inputs = {{.shape = {1, 4, 1}}, {.shape = {1, 2, 1}}, ints({1}, {5})},
         .attrs = {{"ring", std::int64_t{1}},
                   {"first", std::int64_t{1}},
                   {"slots", std::int64_t{2}}},
         .expect =
             [](const std::vector<Doubles>& in) {
               return std::vector<Doubles>{{in[0][0], in[1][1], in[1][0], in[0][3]}};
             }},
        {.name = "what does not fit",
         .inputs = {{.shape = {1, 4, 1}}, {.shape = {1, 2, 1}}, ints({1}, {1})},
         .attrs = {{"first", std::int64_t{1}}, {"slots", std::int64_t{2}}},
         .expect =
             [](const std::vector<Doubles>& in) {
               return std::vector<Doubles>{{in[0][0], in[0][1], in[1][0], in[0][3]}};
             }},
        {.name = "nothing new",
         .inputs = {{.shape = {1, 4, 3}, .high = 9},
                    {.shape = {1, 0, 3}, .high = 9},
                    ints({1}, {2})},
         .expect = written(4, 0, 3, false)},
    }};

const OpCases kRows = {
    .op = "select_rows",
    .dtypes = {DType::f32, DType::bf16, DType::i32},
    .cases = {{.name = "one each",
               .inputs = {{.shape = {3, 4, 5}, .high = 9}, ints({3}, {3, 0, 2})},
               .expect = [](const std::vector<Doubles>& in) {
                 Doubles y;
                 for (std::size_t b = 0; b < 3; ++b)
                   for (std::size_t i = 0; i < 5; ++i)
                     y.push_back(in[0][(b * 4 + static_cast<std::size_t>(in[1][b])) * 5 + i]);
                 return std::vector<Doubles>{y};
               }}}};

LAMINA_TEST_OP(CacheWrite, kWrite)
LAMINA_TEST_OP(SelectRows, kRows)

}  // namespace
}  // namespace lamina::testing
