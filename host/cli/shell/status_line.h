// One line about work in progress: repainted on a terminal, else printed at intervals.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "cli/shell/terminal.h"

namespace lamina::cli {

// [one thread]
class StatusLine {
 public:
  StatusLine(bool quiet, ColorMode color);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // Shows the result of `text` for the seconds since the start, if the interval has passed; on a
  // terminal also `at_end`.
  void show(bool at_end, const std::function<std::string(double seconds)>& text);

 private:
  using Clock = std::chrono::steady_clock;
  bool quiet_, animated_;
  bool is_painted_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

// "evaluating  41%  123 of 300 rows  eta 4s"
std::string count_line(std::string_view doing, std::string_view what, std::uint64_t done,
                       std::uint64_t total, double seconds);

}  // namespace lamina::cli
