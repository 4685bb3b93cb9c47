// Cases of likeliest_tokens and tokens_at_draw.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/op_cases.h"

namespace lamina::testing {
namespace {

constexpr double kNoLogit = -std::numeric_limits<double>::infinity();

In number(double value) { return {.shape = {}, .dtype = DType::f64, .values = {value}}; }

// Row `row` of logits with `width` tokens.
std::span<const double> row_of(const Doubles& logits, std::int64_t row, std::int64_t width) {
  return std::span(logits).subspan(static_cast<std::size_t>(row * width),
                                   static_cast<std::size_t>(width));
}

Doubles weights_of(std::span<const double> logits, double temperature) {
  const double largest = *std::ranges::max_element(logits);
  Doubles out;
  for (const double x : logits)
    out.push_back(temperature > 0 ? std::exp((x - largest) / temperature)
                                  : static_cast<double>(x == largest));
  return out;
}

double sum_of(std::span<const double> list) {
  return std::accumulate(list.begin(), list.end(), 0.0);
}

OpCase likeliest(std::string name, In logits, std::int64_t k, double temperature = 1) {
  const std::int64_t rows = logits.shape[0], width = logits.shape[1];
  return {.name = std::move(name),
          .inputs = {std::move(logits), number(temperature)},
          .attrs = {{"k", k}},
          .expect =
              [=](const std::vector<Doubles>& in) {
                Doubles values, ids, weights;
                for (std::int64_t row = 0; row < rows; ++row) {
                  const auto logits_of_row = row_of(in[0], row, width);
                  std::vector<std::size_t> order(logits_of_row.size());
                  std::iota(order.begin(), order.end(), std::size_t{0});
                  std::ranges::stable_sort(order, std::greater(),
                                           [&](std::size_t i) { return logits_of_row[i]; });
                  for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
                    values.push_back(logits_of_row[order[i]]);
                    ids.push_back(static_cast<double>(order[i]));
                  }
                  weights.push_back(sum_of(weights_of(logits_of_row, temperature)));
                }
                return std::vector<Doubles>{values, ids, weights};
              },
          .gradient = false};
}

// Logits in which every value occurs `times` times.
In repeated(std::int64_t rows, std::int64_t width, int times) {
  Doubles values;
  for (std::int64_t i = 0; i < rows * width; ++i)
    values.push_back(static_cast<double>(i * 7919 % (width / times)) / 64);
  return {.shape = {rows, width}, .values = std::move(values)};
}

// Logits of rising value, and every third excluded.
In rising(std::int64_t rows, std::int64_t width) {
  Doubles values;
  for (std::int64_t i = 0; i < rows * width; ++i)
    values.push_back(i % 3 == 1 ? kNoLogit : static_cast<double>(i % width) / 16);
  return {.shape = {rows, width}, .values = std::move(values)};
}

In some(std::int64_t rows, std::int64_t width, double high = 9) {
  return {.shape = {rows, width}, .low = -high, .high = high};
}

const OpCases kLikeliest = {
    .op = "likeliest_tokens",
    .dtypes = {DType::f32, DType::f64},
    .cases = {likeliest("one of few", some(3, 5), 1), likeliest("all of few", some(2, 7), 7, 0.5),
              likeliest("one token", some(4, 1), 1), likeliest("the largest", some(2, 9001), 1, 0),
              likeliest("many of several blocks", some(2, 9001), 128, 0.7),
              likeliest("the most", some(1, 4097), 256, 1.3),
              likeliest("equal logits", repeated(2, 5000, 50), 100),
              likeliest("all logits equal", some(1, 4500, 0), 130),
              likeliest("rising logits", rising(2, 8200), 256, 2),
              likeliest("excluded logits among the likeliest", rising(1, 9), 9),
              likeliest("flat", some(1, 8192, 1e-3), 64, 5), likeliest("no rows", some(0, 6), 2)},
    .num_differentiable = 0};
LAMINA_TEST_OP(LikeliestTokens, kLikeliest)

OpCase at_draw(std::string name, In logits, double draw, double temperature = 1) {
  constexpr std::int64_t kGroup = 256;
  const std::int64_t rows = logits.shape[0], width = logits.shape[1];
  return {
      .name = std::move(name),
      .inputs = {std::move(logits),
                 number(temperature),
                 {.shape = {rows},
                  .dtype = DType::f64,
                  .values = Doubles(static_cast<std::size_t>(rows), draw)}},
      .expect =
          [=](const std::vector<Doubles>& in) {
            std::vector<Doubles> out(5);
            for (std::int64_t row = 0; row < rows; ++row) {
              const auto logits_of_row = row_of(in[0], row, width);
              const Doubles weights = weights_of(logits_of_row, temperature);
              const double total = sum_of(weights);
              std::int64_t first = 0;
              double before = 0;
              for (;; first += kGroup) {
                const auto group = std::span(weights).subspan(
                    static_cast<std::size_t>(first),
                    static_cast<std::size_t>(std::min(kGroup, width - first)));
                if (before + sum_of(group) > draw * total || first + kGroup >= width) break;
                before += sum_of(group);
              }
              for (std::int64_t i = first; i < first + kGroup; ++i)
                out[0].push_back(i < width ? logits_of_row[static_cast<std::size_t>(i)] : kNoLogit);
              out[1].push_back(static_cast<double>(first));
              out[2].push_back(before);
              out[3].push_back(*std::ranges::max_element(logits_of_row));
              out[4].push_back(total);
            }
            return out;
          },
      .gradient = false};
}

const OpCases kAtDraw = {
    .op = "tokens_at_draw",
    .dtypes = {DType::f32, DType::f64},
    .cases = {at_draw("one token", some(2, 1), 0.5), at_draw("few", some(3, 5), 0.9),
              at_draw("a whole group", some(2, 256), 0.3),
              at_draw("one more than a group", some(2, 257), 0.9999),
              at_draw("several blocks", some(2, 9001), 0.777, 0.7),
              at_draw("the first group", some(2, 9001), 0),
              at_draw("the last group", some(2, 8200, 0.1), 0.99999),
              at_draw("excluded logits", rising(2, 8200), 0.4, 3),
              at_draw("equal logits", some(1, 5000, 0), 0.123),
              at_draw("many groups", some(1, 70000, 1), 0.61, 0.9),
              at_draw("temperature 0", repeated(1, 5000, 50), 0.5, 0),
              at_draw("no rows", some(0, 6), 0.5)},
    .num_differentiable = 0};
LAMINA_TEST_OP(TokensAtDraw, kAtDraw)

}  // namespace
}  // namespace lamina::testing
