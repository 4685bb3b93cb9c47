#include "train/schedule.h"

#include <cmath>

namespace lamina::train {

double learning_rate(const config::ScheduleSection& schedule, double lr, std::int64_t step,
                     std::int64_t num_steps) {
  std::int64_t warmup = schedule.warmup_steps;
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (schedule.kind == "constant") return lr;
  double x = num_steps > warmup
                 ? static_cast<double>(step - warmup) / static_cast<double>(num_steps - warmup)
                 : 1.0;
  x = x < 1 ? x : 1;
  double f = schedule.final_fraction;
  if (schedule.kind == "linear") return lr * (1 - (1 - f) * x);
  return lr * (f + (1 - f) * (1 + std::cos(M_PI * x)) / 2);
}

}  // namespace lamina::train
