#include "train/loop/spikes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lamina::train {
namespace {

bool is_far_above(const std::vector<double>& before, double value, double factor) {
  const auto n = static_cast<double>(before.size());
  const double mean = std::accumulate(before.begin(), before.end(), 0.0) / n;
  double squares = 0;
  for (double x : before) squares += (x - mean) * (x - mean);
  return value - mean > factor * std::sqrt(squares / (n - 1));
}

}  // namespace

bool is_spike(const SpikeHistory& history, double loss, double norm, double factor,
              std::int64_t window) {
  // One step has no deviation.
  const std::int64_t needed = std::max<std::int64_t>(2, window - window / 2);
  if (std::ssize(history.losses) < needed) return false;
  return is_far_above(history.losses, loss, factor) || is_far_above(history.norms, norm, factor);
}

void remember(SpikeHistory& history, double loss, double norm, std::int64_t window) {
  for (auto [values, value] : {std::pair{&history.losses, loss}, {&history.norms, norm}}) {
    values->push_back(value);
    if (std::ssize(*values) > window) values->erase(values->begin());
  }
}

}  // namespace lamina::train
