#include "inspect/verify/report.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lamina::inspect {

bool VerifyReport::passed() const {
  return std::ranges::all_of(rows, &VerifyRow::passed) &&
         std::ranges::none_of(skipped, &std::string::empty, &SkippedQuantity::reason) &&
         std::ranges::all_of(unbuilt,
                             [](const UnbuiltType& one) { return one.dtype == DType::f64; });
}

double max_abs_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(d)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, d);
  }
  return worst;
}

double max_abs(std::span<const float> a) {
  double worst = 0;
  for (float v : a) worst = std::max(worst, std::abs(static_cast<double>(v)));
  return worst;
}

}  // namespace lamina::inspect
