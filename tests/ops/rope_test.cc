// Cases of rope, rope_table and rotate.
#include <cmath>

#include "ops/op.h"
#include "support/expect_error.h"
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

// Without scaling: cosines and sines of position * theta^(-2i / rotary).
auto angles(std::size_t half, double theta) {
  return [=](const std::vector<Doubles>& in) {
    Doubles cos, sin;
    for (double position : in[0])
      for (std::size_t i = 0; i < half; ++i) {
        const double angle =
            position * std::pow(theta, -static_cast<double>(i) / static_cast<double>(half));
        cos.push_back(std::cos(angle)), sin.push_back(std::sin(angle));
      }
    cos.insert(cos.end(), sin.begin(), sin.end());
    return std::vector<Doubles>{cos};
  };
}

// As angles(), with frequency i divided by divisors[i]; cosines and sines are multiplied by
// `times`.
auto divided_angles(std::vector<double> divisors, double times) {
  return [=](const std::vector<Doubles>& in) {
    Doubles cos, sin;
    for (double position : in[0])
      for (std::size_t i = 0; i < divisors.size(); ++i) {
        const double share = static_cast<double>(i) / static_cast<double>(divisors.size());
        const double angle = position * std::pow(10000, -share) / divisors[i];
        cos.push_back(times * std::cos(angle)), sin.push_back(times * std::sin(angle));
      }
    cos.insert(cos.end(), sin.begin(), sin.end());
    return std::vector<Doubles>{cos};
  };
}

// Angles for positions [3, B, T]: frequency i uses row axes[i].
auto angles_of_axes(std::vector<std::size_t> axes) {
  return [=](const std::vector<Doubles>& in) {
    const std::size_t tokens = in[0].size() / 3;
    std::vector<Doubles> rows;
    for (std::size_t row = 0; row < 3; ++row) {
      const auto first = in[0].begin() + static_cast<std::ptrdiff_t>(row * tokens);
      rows.push_back(angles(
          axes.size(), 10000)({Doubles(first, first + static_cast<std::ptrdiff_t>(tokens))})[0]);
    }
    Doubles out = rows[0];
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = rows[axes[i % axes.size()]][i];
    return std::vector<Doubles>{out};
  };
}

using Attrs = std::vector<std::pair<std::string, AttrValue>>;
Attrs rotary(std::int64_t dim, Attrs more = {}) {
  more.emplace_back("rotary_dim", dim);
  return more;
}

// Short divisors up to 8 tokens; 64 tokens of context.
const double kLongTimes = std::sqrt(1 + std::log(8.0) / std::log(8.0));
Attrs longrope(Attrs more = {}) {
  more.insert(more.end(), {{"scaling", std::string("longrope")},
                           {"original_max_positions", std::int64_t{8}},
                           {"max_positions", std::int64_t{64}},
                           {"short_factor", std::vector<double>{1, 1.5, 2, 3}},
                           {"long_factor", std::vector<double>{1, 2.5, 6, 9}}});
  return rotary(8, std::move(more));
}

const OpCases kTable = {
    .op = "rope_table",
    .dtypes = {DType::f32},
    .cases = {
        {.name = "two rows",
         .inputs = {ints({2, 5}, 0, 60)},
         .attrs = rotary(16),
         .expect = angles(8, 10000)},
        {.name = "another base",
         .inputs = {ints({1, 3}, 0, 60)},
         .attrs = rotary(6, {{"theta", 500000.0}}),
         .expect = angles(3, 500000)},
        {.name = "dynamic below its length",
         .inputs = {ints({1, 4}, {0, 1, 2, 3})},
         .attrs = rotary(8, {{"scaling", std::string("dynamic")},
                             {"factor", 2.0},
                             {"max_positions", std::int64_t{8}}}),
         .expect = angles(4, 10000)},
        {.name = "dynamic beyond its length",
         .inputs = {ints({2, 4}, {0, 1, 2, 15, 0, 1, 2, 3})},
         .attrs = rotary(8, {{"scaling", std::string("dynamic")},
                             {"factor", 2.0},
                             {"max_positions", std::int64_t{8}}}),
         .expect =
             [](const std::vector<Doubles>& in) {
               // 16 tokens: the base grows by (2 * 16 / 8 - 1)^(8 / 6).
               const auto row = in[0].begin() + 4;
               const Doubles far =
                   angles(4, 10000 * std::pow(3, 8.0 / 6))({Doubles(in[0].begin(), row)})[0];
               const Doubles near = angles(4, 10000)({Doubles(row, in[0].end())})[0];
               Doubles out(far.begin(), far.begin() + 16);
               out.insert(out.end(), near.begin(), near.begin() + 16);
               out.insert(out.end(), far.begin() + 16, far.end());
               out.insert(out.end(), near.begin() + 16, near.end());
               return std::vector<Doubles>{out};
             }},
        {.name = "many frequencies",
         .inputs = {ints({1, 3}, {0, 1, 30})},
         .attrs = rotary(300),
         .expect = angles(150, 10000)},
        {.name = "longrope up to its original length",
         .inputs = {ints({1, 4}, {0, 1, 2, 7})},
         .attrs = longrope(),
         .expect = divided_angles({1, 1.5, 2, 3}, kLongTimes)},
        {.name = "longrope beyond it, for all tokens",
         .inputs = {ints({1, 4}, {0, 1, 2, 8})},
         .attrs = longrope(),
         .expect = divided_angles({1, 2.5, 6, 9}, kLongTimes)},
        {.name = "longrope with a factor for cosines and sines",
         .inputs = {ints({1, 3}, {0, 3, 5})},
         .attrs = longrope({{"attention_factor", 1.25}}),
         .expect = divided_angles({1, 1.5, 2, 3}, 1.25)},
        {.name = "linear halves positions",
         .inputs = {ints({1, 4}, {0, 2, 4, 6})},
         .attrs = rotary(8, {{"scaling", std::string("linear")}, {"factor", 2.0}}),
         .expect =
             [](const std::vector<Doubles>&) {
               return angles(4, 10000)({{0, 1, 2, 3}});
             }},
        {.name = "sections one after the other",
         .inputs = {ints({3, 2, 3}, 0, 60)},
         .attrs = rotary(12, {{"mrope_section", std::vector<std::int64_t>{1, 2, 3}}}),
         .expect = angles_of_axes({0, 1, 1, 2, 2, 2})},
        {.name = "interleaved sections",
         .inputs = {ints({3, 1, 5}, 0, 60)},
         .attrs = rotary(16, {{"mrope_section", std::vector<std::int64_t>{4, 2, 2}},
                              {"mrope_interleaved", std::int64_t{1}}}),
         .expect = angles_of_axes({0, 1, 2, 0, 1, 2, 0, 0})},
        {.name = "sections of one row of positions",
         .inputs = {ints({2, 3}, 0, 60)},
         .attrs = rotary(16, {{"mrope_section", std::vector<std::int64_t>{4, 2, 2}}}),
         .expect = angles(8, 10000)},
        {.name = "no tokens",
         .inputs = {ints({2, 0}, 0, 1)},
         .attrs = rotary(8),
         .expect = angles(4, 10000)},
    }};

const In kAngles = {.shape = {2, 2, 3, 4}, .dtype = DType::f32};

const OpCases kRotate = {
    .op = "rotate",
    .cases = {
        {.name = "halves", .inputs = {{.shape = {2, 3, 5, 8}}, kAngles}},
        {.name = "interleaved",
         .inputs = {{.shape = {2, 3, 5, 8}}, kAngles},
         .attrs = {{"interleaved", std::int64_t{1}}}},
        {.name = "some dims pass", .inputs = {{.shape = {2, 3, 2, 13}}, kAngles}},
        {.name = "some dims pass, interleaved",
         .inputs = {{.shape = {2, 3, 2, 13}}, kAngles},
         .attrs = {{"interleaved", std::int64_t{1}}}},
        {.name = "back",
         .inputs = {{.shape = {2, 3, 1, 8}}, kAngles},
         .attrs = {{"inverse", std::int64_t{1}}}},
        {.name = "wide heads",
         .inputs = {{.shape = {1, 2, 2, 128}}, {.shape = {2, 1, 2, 64}, .dtype = DType::f32}}},
        {.name = "wide heads, interleaved",
         .inputs = {{.shape = {1, 2, 2, 128}}, {.shape = {2, 1, 2, 32}, .dtype = DType::f32}},
         .attrs = {{"interleaved", std::int64_t{1}}}},
        {.name = "no tokens",
         .inputs = {{.shape = {2, 0, 2, 8}}, {.shape = {2, 2, 0, 4}, .dtype = DType::f32}}},
    }};

// Halves of one head [T, 4] rotated by position * frequency, times 0.5.
std::vector<Doubles> rotated(const std::vector<Doubles>& in) {
  Doubles y(in[0].size());
  for (std::size_t t = 0; t < in[1].size(); ++t)
    for (std::size_t i = 0; i < 2; ++i) {
      const double angle = in[1][t] * in[2][i], cos = std::cos(angle), sin = std::sin(angle);
      const double a = in[0][4 * t + i], b = in[0][4 * t + 2 + i];
      y[4 * t + i] = (a * cos - b * sin) / 2;
      y[4 * t + 2 + i] = (b * cos + a * sin) / 2;
    }
  return {y};
}

const OpCases kRope = {
    .op = "rope",
    .cases = {
        {.name = "whole heads",
         .inputs = {{.shape = {2, 3, 2, 8}}, ints({2, 3}, 0, 40)},
         .loosen = 1e4},
        {.name = "half of each head",
         .inputs = {{.shape = {1, 3, 2, 8}}, ints({1, 3}, 0, 40)},
         .attrs = {{"rotary_dim", std::int64_t{4}}, {"theta", 100.0}},
         .loosen = 1e4},
        {.name = "positions in three rows",
         .inputs = {{.shape = {2, 3, 2, 8}}, ints({3, 2, 3}, 0, 40)},
         .attrs = {{"mrope_section", std::vector<std::int64_t>{2, 1, 1}}},
         .loosen = 1e4},
        {.name = "frequencies",
         .inputs = {{.shape = {1, 5, 1, 4}},
                    ints({1, 5}, 0, 40),
                    {.shape = {2}, .dtype = DType::f32, .low = 0}},
         .attrs = {{"attention_factor", 0.5}},
         .expect = rotated,
         .dtypes = {DType::f32, DType::bf16},
         .loosen = 10},
        {.name = "frequencies of a part of each head",
         .inputs = {{.shape = {2, 3, 2, 8}},
                    ints({2, 3}, 0, 40),
                    {.shape = {3}, .dtype = DType::f32}},
         .attrs = {{"rotary_dim", std::int64_t{6}}, {"interleaved", std::int64_t{1}}},
         .loosen = 1e4},
    }};

LAMINA_TEST_OP(RopeTable, kTable)
LAMINA_TEST_OP(Rotate, kRotate)
LAMINA_TEST_OP(Rope, kRope)

TEST(RopeTable, RefusesOddAndNegativeFrequencyDims) {
  for (const std::int64_t dim : {5, -1, -2}) {
    Graph g;
    Tensor x = g.add_input("x", {DType::f32, {1, 3, 1, 4}, {}});
    Tensor positions = g.add_input("positions", {DType::i32, {1, 3}, {}});
    const std::string says =
        fmt::format("frequency_dim must be even and positive, or 0, got {}", dim);
    EXPECT_ERROR_SAYS(ops::call("rope_table", {positions},
                                {{"rotary_dim", std::int64_t{4}}, {"frequency_dim", dim}}),
                      ExitCode::usage, says);
    EXPECT_ERROR_SAYS(ops::call("rope", {x, positions}, {{"frequency_dim", dim}}), ExitCode::usage,
                      says);
  }
}

}  // namespace
}  // namespace lamina::testing
