// Steps that are left out because their loss or gradient is far above that of those before.
#pragma once

#include <cstdint>
#include <vector>

namespace lamina::train {

// The last steps' losses and gradient norms; what a checkpoint keeps of them.
struct SpikeHistory {
  std::vector<double> losses, norms;  // oldest first
  std::int64_t num_skipped = 0;       // steps left out so far
  bool operator==(const SpikeHistory&) const = default;
};

// Whether either number exceeds the mean of those before by more than `factor` of their standard
// deviations (of a sample). With fewer than half of `window` steps before it, none is a spike.
bool is_spike(const SpikeHistory& history, double loss, double norm, double factor,
              std::int64_t window);

// Adds a step, left out or not: what stays high is soon no spike.
void remember(SpikeHistory& history, double loss, double norm, std::int64_t window);

}  // namespace lamina::train
