// The duration of a wait that looks at its clock again and again.
#pragma once

#include <algorithm>
#include <chrono>

namespace lamina {

// A gap between two looks counts at most kLongestGap: in a longer one this process was stopped, or
// had no CPU, and so had the threads that it waits for.
class WaitingTime {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kLongestGap = std::chrono::seconds(1);

  explicit WaitingTime(Clock::time_point begin = Clock::now()) : last_(begin) {}

  // Returns the duration until now.
  Clock::duration look(Clock::time_point now = Clock::now()) {
    total_ += std::min(now - last_, kLongestGap);
    last_ = now;
    return total_;
  }

 private:
  Clock::time_point last_;
  Clock::duration total_{};
};

}  // namespace lamina
