// Draws losses over steps into a grid of characters.
#include "cli/train/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lamina::cli {
namespace {

struct Range {
  double low = 0, high = 0;
};

std::vector<CurvePoint> finite(std::vector<CurvePoint> points) {
  std::erase_if(points, [](const CurvePoint& point) { return !std::isfinite(point.loss); });
  return points;
}

// One mean per column; columns without points are NaN.
std::vector<double> column_means(const std::vector<CurvePoint>& points, std::int64_t first_step,
                                 std::int64_t last_step, int columns) {
  std::vector<double> sums(static_cast<std::size_t>(columns)), counts(sums.size());
  for (const CurvePoint& point : points) {
    double position = static_cast<double>(point.step - first_step) /
                      static_cast<double>(std::max<std::int64_t>(last_step - first_step, 1));
    auto column = static_cast<std::size_t>(std::lround(position * (columns - 1)));
    sums[column] += point.loss;
    counts[column] += 1;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = counts[i] > 0 ? sums[i] / counts[i] : NAN;
  return sums;
}

void draw(std::vector<std::string>& grid, const std::vector<double>& means, const Range& range,
          char mark) {
  double height = static_cast<double>(grid.size() - 1);
  for (std::size_t column = 0; column < means.size(); ++column) {
    if (std::isnan(means[column])) continue;
    double share = (range.high - means[column]) / (range.high - range.low);
    grid[static_cast<std::size_t>(std::lround(share * height))][column] = mark;
  }
}

}  // namespace

std::string loss_curve(const std::vector<CurvePoint>& training,
                       const std::vector<CurvePoint>& validation, int columns, int rows) {
  std::vector<CurvePoint> train = finite(training), valid = finite(validation);
  if (train.size() < 2) return "";
  std::int64_t first = train.front().step, last = first;
  for (const auto* points : {&train, &valid})
    for (const CurvePoint& point : *points)
      first = std::min(first, point.step), last = std::max(last, point.step);

  constexpr int kLabel = 8, kMinWidth = 10, kMinRows = 2;
  int width = std::max(columns - kLabel, kMinWidth);
  std::vector<double> train_means = column_means(train, first, last, width);
  std::vector<double> valid_means = column_means(valid, first, last, width);
  Range range{INFINITY, -INFINITY};
  for (const auto* means : {&train_means, &valid_means})
    for (double mean : *means)
      if (!std::isnan(mean))
        range.low = std::min(range.low, mean), range.high = std::max(range.high, mean);
  if (range.high - range.low < 1e-6) range.high = range.low + 1e-6;

  std::vector<std::string> grid(static_cast<std::size_t>(std::max(rows, kMinRows)),
                                std::string(static_cast<std::size_t>(width), ' '));
  draw(grid, train_means, range, '.');
  draw(grid, valid_means, range, 'o');

  std::string out;
  for (std::size_t row = 0; row < grid.size(); ++row) {
    double share = static_cast<double>(row) / static_cast<double>(grid.size() - 1);
    bool labelled = row == 0 || row + 1 == grid.size() || row == grid.size() / 2;
    std::string label =
        labelled ? fmt::format("{:6.2f}", range.high - share * (range.high - range.low)) : "";
    grid[row].erase(grid[row].find_last_not_of(' ') + 1);
    out += fmt::format("{:>6} |{}\n", label, grid[row]);
  }
  out += fmt::format("{:>6} +{}\n", "", std::string(static_cast<std::size_t>(width), '-'));
  std::string last_text = fmt::format("{}", last);
  out += fmt::format("{:>6}  {:<{}}{}\n", "step", first,
                     std::max(1, width - static_cast<int>(last_text.size())), last_text);
  return out +
         fmt::format("{:>6}  . training loss{}\n", "", valid.empty() ? "" : "   o validation loss");
}

}  // namespace lamina::cli
