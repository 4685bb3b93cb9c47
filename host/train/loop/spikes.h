// Finds steps to skip, because their loss or gradient is far above the steps before.
#pragma once

#include <cstdint>
#include <vector>

namespace lamina::train {

// Losses and gradient norms of the last steps; checkpoints keep them.
struct SpikeHistory {
  std::vector<double> losses, norms;  // oldest first
  std::int64_t num_skipped = 0;       // steps skipped so far
  bool operator==(const SpikeHistory&) const = default;
};

// True if either number exceeds the mean of the steps before by more than `factor` of their
// standard deviations (of a sample). False with fewer than half of `window` steps before it, or
// fewer than two.
bool is_spike(const SpikeHistory& history, double loss, double norm, double factor,
              std::int64_t window);

// Adds a step, skipped or not: a level that stays high is soon no spike.
void remember(SpikeHistory& history, double loss, double norm, std::int64_t window);

}  // namespace lamina::train
