// Steps that are skipped because their loss or gradient is far above the earlier ones.
#include "train/loop/spikes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lamina::train {
namespace {

SpikeHistory history(std::vector<double> losses) {
  SpikeHistory out;
  for (double loss : losses) remember(out, loss, 1, 8);
  return out;
}

// The mean is 3 and the deviation of the sample 1.
TEST(Spikes, AreAboveTheMeanByMoreThanTheFactorTimesTheDeviation) {
  const SpikeHistory before = history({2, 3, 4});
  EXPECT_FALSE(is_spike(before, 4.99, 1, 2, 6));
  EXPECT_TRUE(is_spike(before, 5.01, 1, 2, 6));
  EXPECT_FALSE(is_spike(before, -100, 1, 2, 6));
}

TEST(Spikes, CanBeInTheGradientAlone) {
  SpikeHistory before;
  for (double norm : {1.0, 1.5, 2.0}) remember(before, 3, norm, 8);
  EXPECT_FALSE(is_spike(before, 3, 2.4, 2, 6));
  EXPECT_TRUE(is_spike(before, 3, 2.6, 2, 6));
}

TEST(Spikes, NeedHalfAWindowOfStepsBefore) {
  EXPECT_FALSE(is_spike(history({3, 3.1, 3}), 100, 1, 2, 8));
  EXPECT_TRUE(is_spike(history({3, 3.1, 3, 3.1}), 100, 1, 2, 8));
  EXPECT_FALSE(is_spike(history({3, 3.1, 3}), 100, 1, 2, 7));
  EXPECT_TRUE(is_spike(history({3, 3.1, 3, 3.1}), 100, 1, 2, 7));
}

TEST(Spikes, NeedTwoEarlierStepsForAnyWindow) {
  for (std::int64_t window : {2, 3, 4}) {
    EXPECT_FALSE(is_spike({}, 100, 1, 2, window)) << window;
    EXPECT_FALSE(is_spike(history({3}), 100, 1, 2, window)) << window;
    EXPECT_TRUE(is_spike(history({3, 3.1}), 100, 1, 2, window)) << window;
  }
  EXPECT_FALSE(is_spike(history({3, 3.1}), 100, 1, 2, 5));
}

TEST(Spikes, EnterTheWindowThatForgetsTheOldest) {
  SpikeHistory before = history({1, 2, 3});
  remember(before, 4, 9, 3);
  EXPECT_EQ(before.losses, (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(before.norms, (std::vector<double>{1, 1, 9}));
}

}  // namespace
}  // namespace lamina::train
