// Cases of the ops of experts and their gradients: choice (top_k, take_along, scatter_along),
// sorting rows by expert (group_rows, gather_rows, combine_rows) and products (grouped_linear).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/op_cases.h"

namespace lamina::testing {
namespace {

using Results = std::vector<Doubles>;
std::size_t at(double i) { return static_cast<std::size_t>(i); }
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

auto best_of(std::size_t width, std::size_t k) {
  return [=](const Results& in) {
    Results out(2);
    for (std::size_t row = 0; row < in[0].size() / width; ++row) {
      std::vector<std::size_t> order(width);
      std::iota(order.begin(), order.end(), 0);
      const double* x = in[0].data() + row * width;
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
      for (std::size_t j = 0; j < k; ++j) {
        out[0].push_back(x[order[j]]);
        out[1].push_back(static_cast<double>(order[j]));
      }
    }
    return out;
  };
}

// `count` numbers with `different` distinct values.
Doubles repeated(std::int64_t count, std::int64_t different) {
  Doubles out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<double>(i * i % different));
  return out;
}

OpCase top_k_case(std::string name, In x, std::int64_t k) {
  const auto width = at(x.shape[-1]);
  return {.name = std::move(name),
          .inputs = {std::move(x)},
          .attrs = {{"k", k}},
          .expect = best_of(width, at(k))};
}

OpCase long_row(std::string name, Shape shape, std::int64_t k) {
  OpCase c = top_k_case(std::move(name), {.shape = shape}, k);
  c.gradient = false;
  c.large = true;
  return c;
}

// NaNs come first, and each by its index: also the first element of a row, and all of a row.
OpCase top_k_of_nans(std::string name, std::int64_t k, Doubles values, Doubles ids) {
  return {.name = std::move(name),
          .inputs = {{.shape = {3, 4},
                      .values = {NAN, 1, 2, 3, 1, -INFINITY, INFINITY, -NAN, NAN, NAN, NAN, NAN}}},
          .attrs = {{"k", k}},
          .expect =
              [=](const Results&) {
                return Results{values, ids};
              },
          .gradient = false};
}

const OpCases kTopK = {.op = "top_k",
                       .cases =
                           {top_k_case("one of five", {.shape = {3, 5}}, 1),
                            top_k_case("eight of many", {.shape = {2, 7, 131}}, 8),
                            top_k_case("all of them", {.shape = {4, 6}}, 6),
                            top_k_case("many, by sorting", {.shape = {3, 203}}, 100),
                            {.name = "many equal ones",
                             .inputs = {{.shape = {2, 150}, .values = repeated(300, 7)}},
                             .attrs = {{"k", std::int64_t{40}}},
                             .expect = best_of(150, 40),
                             .gradient = false},
                            long_row("a few of a long row", {2, 3000}, 9),
                            long_row("most of a long row", {1, 4700}, 4500),
                            {.name = "equal zeros",
                             .inputs = {{.shape = {5}, .values = {-1, -0.0, 0, 2, -0.0}}},
                             .attrs = {{"k", std::int64_t{5}}},
                             .expect =
                                 [](const Results&) {
                                   return Results{{2, 0, 0, 0, -1}, {3, 1, 2, 4, 0}};
                                 },
                             .gradient = false},
                            top_k_case("no rows", {.shape = {0, 6}}, 2),
                            top_k_of_nans("two of rows with NaN", 2,
                                          {NAN, 3, NAN, INFINITY, NAN, NAN}, {0, 3, 3, 2, 0, 1}),
                            top_k_of_nans(
                                "all of rows with NaN", 4,
                                {NAN, 3, 2, 1, NAN, INFINITY, 1, -INFINITY, NAN, NAN, NAN, NAN},
                                {0, 3, 2, 1, 3, 2, 0, 1, 0, 1, 2, 3}),
                            {.name = "equal ones by rising index",
                             .inputs = {{.shape = {6}, .values = {1, 3, 3, 2, 3, 2}}},
                             .attrs = {{"k", std::int64_t{4}}},
                             .expect =
                                 [](const Results&) {
                                   return Results{{3, 3, 3, 2}, {1, 2, 4, 3}};
                                 },
                             .gradient = false}},
                       .num_differentiable = 1};

auto taken(std::size_t from, std::size_t to) {
  return [=](const Results& in) {
    Doubles y;
    for (std::size_t i = 0; i < in[1].size(); ++i) {
      const double id = in[1][i];
      y.push_back(id < 0 || at(id) >= from ? 0 : in[0][i / to * from + at(id)]);
    }
    return Results{y};
  };
}

const OpCases kTakeAlong = {
    .op = "take_along",
    .cases = {{.name = "ids that repeat",
               .inputs = {{.shape = {2, 3, 9}}, ints({2, 3, 5}, 0, 8)},
               .expect = taken(9, 5)},
              {.name = "ids outside of the row",
               .inputs = {{.shape = {2, 3}}, ints({2, 3}, {-1, 3, 1, 2, 7, 0})},
               .expect = taken(3, 3)},
              {.name = "no ids",
               .inputs = {{.shape = {2, 3}}, ints({2, 0}, 0, 1)},
               .expect = taken(3, 1)}}};

auto scattered(std::size_t from, std::size_t to) {
  return [=](const Results& in) {
    Doubles y(in[0].size() / from * to);
    for (std::size_t i = 0; i < in[0].size(); ++i)
      if (in[1][i] >= 0 && at(in[1][i]) < to) y[i / from * to + at(in[1][i])] += in[0][i];
    return Results{y};
  };
}

const OpCases kScatterAlong = {
    .op = "scatter_along",
    .cases = {{.name = "ids that repeat",
               .inputs = {{.shape = {4, 12}}, ints({4, 12}, 0, 4)},
               .attrs = {{"size", std::int64_t{5}}},
               .expect = scattered(12, 5)},
              {.name = "ids outside of the row",
               .inputs = {{.shape = {2, 3}}, ints({2, 3}, {-1, 3, 1, 2, 7, 0})},
               .attrs = {{"size", std::int64_t{3}}},
               .expect = scattered(3, 3)}}};

// Rows by group; `per_element` assignments share a capacity.
auto grouped(std::size_t groups, std::size_t capacity, std::size_t per_element) {
  return [=](const Results& in) {
    std::vector<Doubles> members(groups + 1);
    std::vector<std::size_t> taken(groups);
    for (std::size_t a = 0; a < in[0].size(); ++a) {
      if (a % per_element == 0) taken.assign(groups, 0);
      const double id = in[0][a];
      const bool kept = id >= 0 && at(id) < groups && (!capacity || taken[at(id)]++ < capacity);
      members[kept ? at(id) : groups].push_back(static_cast<double>(a));
    }
    Results out(2);
    for (std::size_t g = 0; g <= groups; ++g) {
      out[1].push_back(static_cast<double>(out[0].size()));
      out[0].insert(out[0].end(), members[g].begin(), members[g].end());
    }
    return out;
  };
}

const OpCases kGroupRows = {
    .op = "group_rows",
    .dtypes = {DType::f32},
    .cases = {{.name = "some groups empty",
               .inputs = {ints({40, 2}, 3, 9)},
               .attrs = {{"groups", std::int64_t{16}}},
               .expect = grouped(16, 0, 80)},
              {.name = "ids outside of the groups",
               .inputs = {ints({5}, {2, -1, 0, 3, 2})},
               .attrs = {{"groups", std::int64_t{3}}},
               .expect = grouped(3, 0, 5)},
              {.name = "capacity of each row of the batch",
               .inputs = {ints({3, 10, 2}, 0, 3)},
               .attrs = {{"groups", std::int64_t{4}}, {"capacity_factor", 0.65}},
               .expect = grouped(4, 3, 20)},
              {.name = "many assignments",
               .inputs = {ints({1500, 2}, 0, 40)},
               .attrs = {{"groups", std::int64_t{40}}},
               .expect = grouped(40, 0, 3000)},
              {.name = "many groups",
               .inputs = {ints({2500}, 0, 1600)},
               .attrs = {{"groups", std::int64_t{1500}}},
               .expect = grouped(1500, 0, 2500)},
              {.name = "no rows",
               .inputs = {ints({0, 2}, 0, 3)},
               .attrs = {{"groups", std::int64_t{2}}},
               .expect = grouped(2, 0, 1)}}};

// A permutation of the assignments, and numbers of rows for 3 tokens of 2 assignments.
const In kOrder = ints({6}, {3, 0, 5, 1, 4, 2});

const OpCases kGatherRows = {.op = "gather_rows",
                             .cases = {{.name = "two assignments a row",
                                        .inputs = {{.shape = {1, 3, 19}}, kOrder},
                                        .attrs = {{"divide", std::int64_t{2}}},
                                        .expect =
                                            [](const Results& in) {
                                              Doubles y;
                                              for (double a : in[1])
                                                for (std::size_t i = 0; i < 19; ++i)
                                                  y.push_back(in[0][at(a) / 2 * 19 + i]);
                                              return Results{y};
                                            }},
                                       {.name = "one assignment a row",
                                        .inputs = {{.shape = {6, 1}}, kOrder},
                                        .expect =
                                            [](const Results& in) {
                                              Doubles y;
                                              for (double a : in[1]) y.push_back(in[0][at(a)]);
                                              return Results{y};
                                            }},
                                       {.name = "no rows",
                                        .inputs = {{.shape = {0, 4}}, ints({0}, 0, 1)},
                                        .attrs = {{"divide", std::int64_t{2}}},
                                        .expect = [](const Results&) { return Results{{}}; }}}};

Results combined(const Results& in, std::size_t k, std::size_t width) {
  Doubles y(in[1].size() / k * width);
  for (std::size_t r = 0; r < in[1].size(); ++r)
    for (std::size_t i = 0; i < width; ++i)
      y[at(in[1][r]) / k * width + i] += in[2][at(in[1][r])] * in[0][r * width + i];
  return {y};
}

// A permutation of `count` assignments, which 11 does not divide.
Doubles permuted(std::size_t count) {
  Doubles out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<double>((i * 11 + 5) % count));
  return out;
}

In weights(Shape shape) { return {.shape = shape, .dtype = DType::f32, .widens = true}; }

const OpCases kCombineRows = {
    .op = "combine_rows",
    .cases = {{.name = "two assignments a row",
               .inputs = {{.shape = {6, 37}}, kOrder, weights({1, 3, 2})},
               .expect = [](const Results& in) { return combined(in, 2, 37); }},
              {.name = "three assignments a row",
               .inputs = {{.shape = {6, 16}}, kOrder, weights({2, 3})},
               .expect = [](const Results& in) { return combined(in, 3, 16); }},
              {.name = "many rows",
               .inputs = {{.shape = {2100, 2}}, ints({2100}, permuted(2100)), weights({700, 3})},
               .expect = [](const Results& in) { return combined(in, 3, 2); },
               .gradient = false},
              {.name = "no rows",
               .inputs = {{.shape = {0, 4}}, ints({0}, 0, 1), weights({0, 2})},
               .expect = [](const Results&) { return Results{{}}; }}}};

// A case of 6 rows for 3 tokens of 2 assignments.
OpCase combined_grad(std::string name, std::size_t width) {
  const auto columns = static_cast<std::int64_t>(width);
  return {.name = std::move(name),
          .inputs = {{.shape = {6, columns}}, kOrder, weights({3, 2}), {.shape = {3, columns}}},
          .expect = [=](const Results& in) {
            Results out = {Doubles(6 * width), Doubles(6)};
            for (std::size_t r = 0; r < 6; ++r)
              for (std::size_t i = 0; i < width; ++i) {
                const std::size_t a = at(in[1][r]);
                out[0][r * width + i] = in[2][a] * in[3][a / 2 * width + i];
                out[1][a] += in[0][r * width + i] * in[3][a / 2 * width + i];
              }
            return out;
          }};
}

const OpCases kCombineRowsGrad = {.op = "combine_rows_grad",
                                  .cases = {combined_grad("two assignments a row", 37),
                                            combined_grad("rows of whole vectors", 16)}};

// y[r, o] = sum over i of x[r, i] w[e, o, i] (+ bias[e, o]) for the rows of each group e.
auto products(std::size_t inputs, std::size_t outputs) {
  return [=](const Results& in) {
    Doubles y(in[0].size() / inputs * outputs);
    for (std::size_t e = 0; e + 1 < in[2].size(); ++e)
      for (std::size_t r = at(in[2][e]); r < at(in[2][e + 1]); ++r)
        for (std::size_t o = 0; o < outputs; ++o) {
          double& sum = y[r * outputs + o];
          for (std::size_t i = 0; i < inputs; ++i)
            sum += in[0][r * inputs + i] * in[1][(e * outputs + o) * inputs + i];
          if (in.size() > 3 && !in[3].empty()) sum += in[3][e * outputs + o];
        }
    return Results{y};
  };
}

const OpCases kGroupedLinear = {
    .op = "grouped_linear",
    .cases = {
        {.name = "one row for each of some groups",
         .inputs = {{.shape = {3, 40}}, {.shape = {5, 33, 40}}, ints({6}, {0, 0, 1, 1, 2, 3})},
         .expect = products(40, 33)},
        {.name = "bias, rows of no group",
         .inputs = {{.shape = {9, 17}},
                    {.shape = {4, 20, 17}},
                    ints({5}, {0, 3, 3, 4, 7}),
                    {.shape = {4, 20}}},
         .expect = products(17, 20)},
        {.name = "many rows, bias in f32",
         .inputs = {{.shape = {150, 24}},
                    {.shape = {3, 70, 24}},
                    ints({4}, {0, 5, 138, 150}),
                    {.shape = {3, 70}, .dtype = DType::f32}},
         .expect = products(24, 70)},
        {.name = "no row belongs to a group",
         .inputs = {{.shape = {2, 4}}, {.shape = {3, 5, 4}}, ints({4}, {0, 0, 0, 0})},
         .expect = products(4, 5)},
        {.name = "no rows",
         .inputs = {{.shape = {0, 4}}, {.shape = {3, 5, 4}}, ints({4}, {0, 0, 0, 0})},
         .expect = products(4, 5)},
    }};

const OpCases kGroupedLinearDx = {
    .op = "grouped_linear_dx",
    .cases = {{.name = "groups without rows, rows of no group",
               .inputs = {{.shape = {300, 21}},
                          {.shape = {4, 21, 200}},
                          ints({5}, {0, 0, 270, 271, 299})},
               .expect = [](const Results& in) {
                 Doubles dx(300 * 200);
                 for (std::size_t e = 0; e < 4; ++e)
                   for (std::size_t r = at(in[2][e]); r < at(in[2][e + 1]); ++r)
                     for (std::size_t o = 0; o < 21; ++o)
                       for (std::size_t i = 0; i < 200; ++i)
                         dx[r * 200 + i] += in[0][r * 21 + o] * in[1][(e * 21 + o) * 200 + i];
                 return Results{dx};
               }}}};

const OpCases kGroupedLinearDw = {
    .op = "grouped_linear_dw",
    .cases = {{.name = "groups without rows, rows of no group",
               .inputs = {{.shape = {33, 400}}, {.shape = {33, 130}}, ints({4}, {0, 2, 2, 31})},
               .expect = [](const Results& in) {
                 Results out = {Doubles(3 * 130 * 400), Doubles(3 * 130)};
                 for (std::size_t e = 0; e < 3; ++e)
                   for (std::size_t r = at(in[2][e]); r < at(in[2][e + 1]); ++r)
                     for (std::size_t o = 0; o < 130; ++o) {
                       out[1][e * 130 + o] += in[1][r * 130 + o];
                       for (std::size_t i = 0; i < 400; ++i)
                         out[0][(e * 130 + o) * 400 + i] += in[1][r * 130 + o] * in[0][r * 400 + i];
                     }
                 return out;
               }}}};

LAMINA_TEST_OP(TopK, kTopK)
LAMINA_TEST_OP(TakeAlong, kTakeAlong)
LAMINA_TEST_OP(ScatterAlong, kScatterAlong)
LAMINA_TEST_OP(GroupRows, kGroupRows)
LAMINA_TEST_OP(GatherRows, kGatherRows)
LAMINA_TEST_OP(CombineRows, kCombineRows)
LAMINA_TEST_OP(CombineRowsGrad, kCombineRowsGrad)
LAMINA_TEST_OP(GroupedLinear, kGroupedLinear)
LAMINA_TEST_OP(GroupedLinearDx, kGroupedLinearDx)
LAMINA_TEST_OP(GroupedLinearDw, kGroupedLinearDw)

}  // namespace
}  // namespace lamina::testing
