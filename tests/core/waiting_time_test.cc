#include "core/waiting_time.h"

#include <gtest/gtest.h>

namespace lamina::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(WaitingTime, AddsUpTheTimeBetweenLooks) {
  const WaitingTime::Clock::time_point begin{};
  WaitingTime time(begin);
  EXPECT_EQ(time.look(begin + milliseconds(300)), milliseconds(300));
  EXPECT_EQ(time.look(begin + milliseconds(700)), milliseconds(700));
}

// Ctrl-Z for an hour is no hang.
TEST(WaitingTime, CountsASecondOfATimeInWhichTheProcessWasStopped) {
  const WaitingTime::Clock::time_point begin{};
  WaitingTime time(begin);
  time.look(begin + milliseconds(500));
  EXPECT_EQ(time.look(begin + seconds(3600)), milliseconds(1500));
  EXPECT_EQ(time.look(begin + seconds(3600) + milliseconds(100)), milliseconds(1600));
}

}  // namespace
}  // namespace lamina::testing
