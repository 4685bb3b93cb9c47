// The learning rate of each step.
#pragma once

#include <cstdint>

#include "config/sections.h"

namespace lamina::train {

// Steps count from 0. Warm-up: lr (step + 1) / warmup_steps. Then, with x running from 0 to 1 over
// the remaining steps and f = final_fraction,
//   constant      lr
//   linear        lr (1 - (1 - f) x)
//   cosine        lr (f + (1 - f) (1 + cos(pi x)) / 2)      Loshchilov & Hutter 2017, equation 5
//   wsd           lr, and over the last decay_steps linear, cosine or lr (1 - (1 - f) sqrt(x))
//   inverse_sqrt  lr sqrt(w / max(w, n)), w = max(1, warmup_steps), n = step + 1
//                                                           Vaswani et al. 2017, section 5.3
// With schedule.endpoints warm-up is lr step / warmup_steps, n is step, and x is 1 at the last
// step: k steps have k - 1 between them. `num_steps`: of the run; schedule.steps replaces it.
double learning_rate(const config::ScheduleSection& schedule, double lr, std::int64_t step,
                     std::int64_t num_steps);

}  // namespace lamina::train
