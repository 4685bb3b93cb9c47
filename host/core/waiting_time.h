// Measures how long a polling loop has waited.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace lamina {

// A gap between two polls counts at most kLongestGap: in a longer one this process was stopped, or
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

  // Pauses before the next look: the longer the wait, the less does a late answer matter. A yield
  // is short if a CPU is free; on a busy machine it may take the time slices of all other threads,
  // so few of them fit into the first milliseconds.
  void pause() const {
    using std::chrono::microseconds;
    using std::chrono::milliseconds;
    if (total_ < milliseconds(2)) return std::this_thread::yield();
    std::this_thread::sleep_for(total_ < milliseconds(20) ? microseconds(20) : microseconds(200));
  }

 private:
  Clock::time_point last_;
  Clock::duration total_{};
};

}  // namespace lamina
