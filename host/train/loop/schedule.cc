#include "train/loop/schedule.h"

#include <algorithm>
#include <cmath>

namespace lamina::train {
namespace {

// Falls from 1 to `f` while x rises from 0 to 1.
double decayed(std::string_view shape, double f, double x) {
  if (shape == "linear") return 1 - (1 - f) * x;
  if (shape == "sqrt") return 1 - (1 - f) * std::sqrt(x);
  return f + (1 - f) * (1 + std::cos(M_PI * x)) / 2;
}

// The share of `steps` that is done at `step`; with `endpoints` it is 1 at the last step.
double share(std::int64_t step, std::int64_t steps, bool endpoints) {
  const std::int64_t last = endpoints ? steps - 1 : steps;
  return last > 0 ? static_cast<double>(step) / static_cast<double>(last) : 1.0;
}

}  // namespace

double learning_rate(const config::ScheduleSection& schedule, double lr, std::int64_t step,
                     std::int64_t num_steps) {
  const bool ends = schedule.endpoints;
  const std::int64_t warmup = schedule.warmup_steps;
  if (schedule.steps && *schedule.steps < num_steps && step >= *schedule.steps) return 0;
  const std::int64_t steps = schedule.steps.value_or(num_steps);
  if (step < warmup)
    return lr * static_cast<double>(step + (ends ? 0 : 1)) / static_cast<double>(warmup);
  if (schedule.kind == "constant") return lr;
  if (schedule.kind == "inverse_sqrt") {
    const auto first = static_cast<double>(std::max<std::int64_t>(warmup, 1));
    return lr * std::sqrt(first / std::max(first, static_cast<double>(step + (ends ? 0 : 1))));
  }
  const double f = schedule.final_fraction;
  if (schedule.kind == "wsd") {
    const std::int64_t decay = schedule.used_decay_steps(steps);
    if (step < steps - decay) return lr;
    return lr * decayed(schedule.decay_shape, f,
                        std::min(1.0, share(step - (steps - decay), decay, ends)));
  }
  // The original's cosine rises again after the last step.
  const double x = share(step - warmup, steps - warmup, ends);
  return lr * decayed(schedule.kind, f, ends && schedule.kind == "cosine" ? x : std::min(x, 1.0));
}

}  // namespace lamina::train
