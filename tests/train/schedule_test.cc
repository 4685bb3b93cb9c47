// The learning rate of each step.
#include "train/loop/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lamina::train {
namespace {

TEST(Schedule, Example) {
  config::ScheduleSection cosine{"cosine", 2, 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 1.0, 0, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 1.0, 1, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 1.0, 2, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 1.0, 6, 10), 0.55);
}

TEST(Schedule, ConstantStaysAndLinearFallsToItsFraction) {
  EXPECT_DOUBLE_EQ(learning_rate({"constant", 0, 0.1}, 3e-4, 999, 1000), 3e-4);
  EXPECT_DOUBLE_EQ(learning_rate({"linear", 0, 0.5}, 1.0, 5, 10), 0.75);
}

TEST(Schedule, WsdKeepsThePeakUntilItDecays) {
  config::ScheduleSection wsd{"wsd", 2, 0.2};
  wsd.decay_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 0, 20), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 16, 20), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 18, 20), 0.6);
  wsd.decay_shape = "sqrt";
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 17, 20), 0.6);
  wsd.decay_shape = "cosine";
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 18, 20), 0.6);
  wsd.decay_steps = {};
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 18, 20), 1.0);
}

TEST(Schedule, InverseSqrtBeginsAtThePeak) {
  const config::ScheduleSection schedule{"inverse_sqrt", 4, 0.0};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.0, 3, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.0, 15, 100), 0.5);
}

TEST(Schedule, InverseSqrtBeginsAtThePeakWithoutWarmUpAndWithEndpoints) {
  config::ScheduleSection schedule{"inverse_sqrt", 0, 0.0};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.0, 0, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.0, 3, 100), 0.5);
  schedule.endpoints = true;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.0, 0, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.0, 1, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.0, 4, 100), 0.5);
  schedule.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.0, 4, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.0, 16, 100), 0.5);
}

TEST(Schedule, WithEndpointsBeginsAtZeroAndEndsAtTheFraction) {
  config::ScheduleSection linear{"linear", 2, 0.1};
  linear.endpoints = true;
  EXPECT_DOUBLE_EQ(learning_rate(linear, 1.0, 0, 10), 0);
  EXPECT_DOUBLE_EQ(learning_rate(linear, 1.0, 1, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(linear, 1.0, 2, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate(linear, 1.0, 9, 10), 0.1);
  linear.steps = 8;
  EXPECT_DOUBLE_EQ(learning_rate(linear, 1.0, 7, 10), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(linear, 1.0, 8, 10), 0);
}

TEST(Schedule, IsFiniteAndNeverNegativeAtEveryEdge) {
  for (const char* kind : {"constant", "linear", "cosine", "wsd", "inverse_sqrt"})
    for (std::int64_t warmup : {0, 1, 5})
      for (std::int64_t steps : {1, 2, 5, 7})
        for (std::int64_t step = 0; step < steps + 3; ++step) {
          double lr = learning_rate({kind, warmup, 0.0}, 1.0, step, steps);
          EXPECT_TRUE(lr >= 0 && lr <= 1) << kind << " " << warmup << " " << step << " " << lr;
        }
}

}  // namespace
}  // namespace lamina::train
