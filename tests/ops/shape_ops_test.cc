// Cases of the ops that move elements: reshape, transpose, slice, concat, broadcast, pad, constant,
// iota.
#include <cmath>
#include <limits>

#include "ops/calls.h"
#include "ops/tensor.h"
#include "support/expect_error.h"
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

using List = std::vector<std::int64_t>;
const std::vector<DType> kAll = {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// y[i] = x[source(i)], or 0 where source is negative.
auto moved(std::int64_t count, std::int64_t (*source)(std::int64_t)) {
  return [=](const std::vector<Doubles>& in) {
    Doubles y(at(count));
    for (std::int64_t i = 0; i < count; ++i) y[at(i)] = source(i) < 0 ? 0 : in[0][at(source(i))];
    return std::vector<Doubles>{y};
  };
}

const OpCases kReshape = {.op = "reshape",
                          .dtypes = kAll,
                          .cases = {{.name = "split",
                                     .inputs = {{.shape = {4, 6}, .high = 9}},
                                     .attrs = {{"shape", List{2, 2, 6}}},
                                     .expect = moved(24, [](std::int64_t i) { return i; })},
                                    {.name = "to a number",
                                     .inputs = {{.shape = {1, 1}, .high = 9}},
                                     .attrs = {{"shape", List{}}},
                                     .expect = moved(1, [](std::int64_t i) { return i; })},
                                    {.name = "nothing",
                                     .inputs = {{.shape = {0, 6}}},
                                     .attrs = {{"shape", List{3, 0}}},
                                     .expect = moved(0, [](std::int64_t i) { return i; })}}};

const OpCases kTranspose = {
    .op = "transpose",
    .dtypes = kAll,
    .cases = {{.name = "matrix",
               .inputs = {{.shape = {37, 41}, .high = 9}},
               .attrs = {{"perm", List{1, 0}}},
               .expect = moved(37 * 41, [](std::int64_t i) { return i % 37 * 41 + i / 37; })},
              {.name = "heads first",
               .inputs = {{.shape = {2, 3, 4, 5}, .high = 9}},
               .attrs = {{"perm", List{0, 2, 1, 3}}},
               .expect = moved(120,
                               [](std::int64_t i) {
                                 std::int64_t h = i % 5, t = i / 5 % 3, n = i / 15 % 4, b = i / 60;
                                 return ((b * 3 + t) * 4 + n) * 5 + h;
                               })},
              {.name = "last first, negative dims",
               .inputs = {{.shape = {2, 3, 4}, .high = 9}},
               .attrs = {{"perm", List{-1, 0, 1}}},
               .expect = moved(24, [](std::int64_t i) { return i % 6 * 4 + i / 6; })},
              {.name = "nothing moves",
               .inputs = {{.shape = {1, 5, 1}, .high = 9}},
               .attrs = {{"perm", List{2, 1, 0}}},
               .expect = moved(5, [](std::int64_t i) { return i; })},
              {.name = "nothing",
               .inputs = {{.shape = {0, 3}}},
               .attrs = {{"perm", List{1, 0}}},
               .expect = moved(0, [](std::int64_t i) { return i; })}}};

std::vector<std::pair<std::string, AttrValue>> slice_of(std::int64_t dim, std::int64_t start,
                                                        std::int64_t size) {
  return {{"dim", dim}, {"start", start}, {"size", size}};
}

const OpCases kSlice = {
    .op = "slice",
    .dtypes = kAll,
    .cases = {{.name = "columns",
               .inputs = {{.shape = {3, 7}, .high = 9}},
               .attrs = slice_of(1, 2, 4),
               .expect = moved(12, [](std::int64_t i) { return i / 4 * 7 + 2 + i % 4; })},
              {.name = "leading rows",
               .inputs = {{.shape = {5, 3}, .high = 9}},
               .attrs = slice_of(0, 1, 2),
               .expect = moved(6, [](std::int64_t i) { return i + 3; })},
              {.name = "middle dim from the end",
               .inputs = {{.shape = {2, 4, 3}, .high = 9}},
               .attrs = slice_of(-2, 3, 1),
               .expect = moved(6, [](std::int64_t i) { return i / 3 * 12 + 9 + i % 3; })},
              {.name = "nothing of something",
               .inputs = {{.shape = {2, 4}, .high = 9}},
               .attrs = slice_of(1, 4, 0),
               .expect = moved(0, [](std::int64_t i) { return i; })}}};

const OpCases kPad = {
    .op = "pad",
    .dtypes = kAll,
    .cases = {{.name = "columns",
               .inputs = {{.shape = {2, 3}, .high = 9}},
               .attrs = {{"dim", std::int64_t{1}},
                         {"before", std::int64_t{1}},
                         {"after", std::int64_t{2}}},
               .expect = moved(12,
                               [](std::int64_t i) {
                                 std::int64_t c = i % 6 - 1;
                                 return c < 0 || c > 2 ? -1 : i / 6 * 3 + c;
                               })},
              {.name = "rows after",
               .inputs = {{.shape = {2, 3}, .high = 9}},
               .attrs = {{"dim", std::int64_t{0}}, {"after", std::int64_t{1}}},
               .expect = moved(9, [](std::int64_t i) { return i < 6 ? i : -1; })},
              {.name = "all of it",
               .inputs = {{.shape = {0, 3}}},
               .attrs = {{"dim", std::int64_t{0}}, {"before", std::int64_t{2}}},
               .expect = moved(6, [](std::int64_t) { return std::int64_t{-1}; })}}};

const OpCases kConcat = {
    .op = "concat",
    .dtypes = kAll,
    .cases = {{.name = "columns of three",
               .inputs = {{.shape = {2, 1}, .high = 9},
                          {.shape = {2, 3}, .high = 9},
                          {.shape = {2, 0}, .high = 9}},
               .attrs = {{"dim", std::int64_t{1}}},
               .expect =
                   [](const std::vector<Doubles>& in) {
                     return std::vector<Doubles>{{in[0][0], in[1][0], in[1][1], in[1][2], in[0][1],
                                                  in[1][3], in[1][4], in[1][5]}};
                   }},
              {.name = "rows of two",
               .inputs = {{.shape = {1, 3}, .high = 9}, {.shape = {1, 3}, .high = 9}},
               .attrs = {{"dim", std::int64_t{-2}}},
               .expect = [](const std::vector<Doubles>& in) {
                 Doubles y = in[0];
                 y.insert(y.end(), in[1].begin(), in[1].end());
                 return std::vector<Doubles>{y};
               }}}};

const OpCases kBroadcast = {
    .op = "broadcast",
    .dtypes = kAll,
    .cases = {{.name = "a column and a new dim",
               .inputs = {{.shape = {3, 1}, .high = 9}},
               .attrs = {{"shape", List{2, 3, 4}}},
               .expect = moved(24, [](std::int64_t i) { return i / 4 % 3; })},
              {.name = "a number",
               .inputs = {{.shape = {}, .high = 9}},
               .attrs = {{"shape", List{5}}},
               .expect = moved(5, [](std::int64_t) { return std::int64_t{0}; })}}};

OpCase constant_of(std::string dtype, double value) {
  return {.name = dtype,
          .inputs = {},
          .attrs = {{"shape", List{2, 3}}, {"dtype", dtype}, {"value", value}},
          .expect = [=](const std::vector<Doubles>&) {
            return std::vector<Doubles>{Doubles(6, value)};
          }};
}

const OpCases kConstant = {
    .op = "constant",
    .dtypes = {DType::f32},
    .cases = {constant_of("f32", 0.25), constant_of("bf16", -3), constant_of("f64", 1e-30),
              constant_of("i32", -7), constant_of("i64", 7), constant_of("bool", 1)}};

OpCase iota_of(std::string dtype, std::int64_t dim) {
  return {.name = dtype,
          .inputs = {},
          .attrs = {{"shape", List{3, 5}}, {"dtype", dtype}, {"dim", dim}},
          .expect = [=](const std::vector<Doubles>&) {
            Doubles y(15);
            for (std::size_t i = 0; i < 15; ++i)
              y[i] = static_cast<double>(dim == 0 ? i / 5 : i % 5);
            return std::vector<Doubles>{y};
          }};
}

const OpCases kIota = {.op = "iota",
                       .dtypes = {DType::f32},
                       .cases = {iota_of("i32", 1), iota_of("i32", 0), iota_of("i64", 1),
                                 iota_of("f32", -1), iota_of("bf16", 0), iota_of("f64", 1)}};

// x[2, 4, 3] along its middle, by ids.
Doubles middle_rows(const Doubles& x, const Doubles& ids) {
  Doubles y;
  for (std::size_t a = 0; a < 2; ++a)
    for (double id : ids)
      for (std::size_t c = 0; c < 3; ++c)
        y.push_back(id < 0 || id > 3 ? 0 : x[(a * 4 + static_cast<std::size_t>(id)) * 3 + c]);
  return y;
}
const OpCases kGather = {
    .op = "gather",
    .dtypes = kAll,
    .cases = {
        {.name = "the middle",
         .inputs = {{.shape = {2, 4, 3}, .low = -9, .high = 9}, ints({2, 3}, {3, 0, 4, -1, 2, 3})},
         .attrs = {{"dim", std::int64_t{1}}},
         .expect =
             [](const std::vector<Doubles>& in) {
               return std::vector<Doubles>{middle_rows(in[0], in[1])};
             }},
        {.name = "one of the last",
         .inputs = {{.shape = {2, 3}, .values = {1, 2, 3, 4, 5, 6}}, ints({}, {1})},
         .attrs = {{"dim", std::int64_t{-1}}},
         .expect =
             [](const std::vector<Doubles>&) {
               return std::vector<Doubles>{{2, 5}};
             }},
        {.name = "none",
         .inputs = {{.shape = {2, 3}}, ints({0}, 0, 0)},
         .attrs = {{"dim", std::int64_t{0}}}}}};
const OpCases kScatter = {
    .op = "scatter",
    .dtypes = kAll,
    .cases = {
        {.name = "rows",
         .inputs = {{.shape = {4, 2}, .values = {1, 2, 3, 4, 5, 6, 7, 8}}, ints({4}, {2, 0, 2, 9})},
         .attrs = {{"dim", std::int64_t{0}}, {"size", std::int64_t{3}}},
         .expect =
             [](const std::vector<Doubles>&) {
               return std::vector<Doubles>{{3, 4, 0, 0, 6, 8}};
             }},
        {.name = "columns",
         .inputs = {{.shape = {2, 3}, .values = {1, 2, 3, 4, 5, 6}}, ints({3}, {1, 1, 0})},
         .attrs = {{"dim", std::int64_t{1}}, {"size", std::int64_t{2}}},
         .expect = [](const std::vector<Doubles>&) {
           return std::vector<Doubles>{{3, 3, 6, 9}};
         }}}};

OpCase numbers(std::string dtype, Doubles values) {
  return {.name = dtype,
          .inputs = {},
          .attrs = {{"shape", List{2, 2}}, {"dtype", dtype}, {"values", values}},
          .expect = [=](const std::vector<Doubles>&) { return std::vector<Doubles>{values}; }};
}
const OpCases kConstantData = {
    .op = "constant_data",
    .dtypes = {DType::f32},
    .cases = {numbers("f32", {0.5, -2, 3, 1e-3}), numbers("bf16", {1, 2, -4, 0.5}),
              numbers("i32", {1, -2, 3, 7}), numbers("i64", {0, 1, 2, 1e15})}};

const OpCases kDimSize = {
    .op = "dim_size",
    .cases = {{.name = "the last",
               .inputs = {{.shape = {2, 7}}},
               .attrs = {{"dim", std::int64_t{-1}}},
               .expect = [](const std::vector<Doubles>&) { return std::vector<Doubles>{{7}}; }}}};

LAMINA_TEST_OP(Gather, kGather)
LAMINA_TEST_OP(Scatter, kScatter)
LAMINA_TEST_OP(ConstantData, kConstantData)
LAMINA_TEST_OP(DimSize, kDimSize)
LAMINA_TEST_OP(Reshape, kReshape)
LAMINA_TEST_OP(Transpose, kTranspose)
LAMINA_TEST_OP(Slice, kSlice)
LAMINA_TEST_OP(Pad, kPad)
LAMINA_TEST_OP(Concat, kConcat)
LAMINA_TEST_OP(Broadcast, kBroadcast)
LAMINA_TEST_OP(Constant, kConstant)
LAMINA_TEST_OP(Iota, kIota)

TEST(Integers, MustHoldTheComputedNumbers) {
  const auto refuses_number = [](std::string dtype, double value, const char* words) {
    Graph g;
    EXPECT_ERROR_SAYS(ops::constant(g, {*parse_dtype(dtype), {2}, {}}, value), ExitCode::usage,
                      words);
    const Tensor x = g.add_input("x", {*parse_dtype(dtype), {2}, {}});
    EXPECT_ERROR_SAYS(ops::shift(x, value), ExitCode::usage, words);
  };
  const auto refuses = [&](std::string dtype, double value, const char* words) {
    refuses_number(dtype, value, words);
    Graph g;
    EXPECT_ERROR_SAYS(ops::constant_data(g, {.shape = {1}, .dtype = dtype, .values = {value}}),
                      ExitCode::usage, words);
  };
  refuses("i32", -std::numeric_limits<double>::infinity(),
          "the value -inf, which does not fit into i32");
  refuses("i32", std::nan(""), "the value nan, which does not fit into i32");
  refuses("i32", 0x1p31, "the value 2147483648, which does not fit into i32");
  refuses("i64", 0x1p63, "which does not fit into i64");
  refuses("i32", 2.75, "the value 2.75, but i32 has only integers; use f32 for fractions");
  refuses("i64", -0.5, "the value -0.5, but i64 has only integers");
  // constant_data has no narrow integers.
  refuses_number("u8", 256, "the value 256, which does not fit into u8");
  refuses_number("u8", -1, "the value -1, which does not fit into u8");
  refuses_number("i8", 128, "which does not fit into i8");
  refuses_number("u16", 0x1p16, "which does not fit into u16");
  refuses_number("i16", -0x1p15 - 1, "which does not fit into i16");
  refuses_number("u32", 0x1p32, "which does not fit into u32");
}

TEST(Integers, HoldTheirLeastAndMostNumbers) {
  const std::pair<DType, std::pair<double, double>> limits[] = {
      {DType::u8, {0, 255}},         {DType::i8, {-128, 127}},
      {DType::u16, {0, 65535}},      {DType::i16, {-32768, 32767}},
      {DType::u32, {0, 4294967295}}, {DType::i32, {-2147483648.0, 2147483647}}};
  for (const auto& [dtype, ends] : limits)
    for (const double value : {ends.first, ends.second}) {
      Graph g;
      EXPECT_NO_THROW(ops::constant(g, {dtype, {2}, {}}, value)) << name(dtype) << " " << value;
    }
}

}  // namespace
}  // namespace lamina::testing
