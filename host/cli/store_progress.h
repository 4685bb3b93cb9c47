// Shows how far the making of a token store is: a repainted line on a terminal, else plain lines.
#pragma once

#include <chrono>
#include <string>

#include "cli/terminal.h"
#include "data/stores.h"

namespace lamina::cli {

// "tokenizing  41%  123 MB of 300 MB  42.1 MB/s  31.2M tokens  eta 4s"; `seconds` since the start.
std::string progress_line(const data::StoreProgress& progress, double seconds);

// [one thread]
class StoreProgressDisplay {
 public:
  StoreProgressDisplay(bool quiet, ColorMode color);
  ~StoreProgressDisplay();
  StoreProgressDisplay(const StoreProgressDisplay&) = delete;
  StoreProgressDisplay& operator=(const StoreProgressDisplay&) = delete;

  void show(const data::StoreProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  bool quiet_, animated_;
  bool is_painted_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

}  // namespace lamina::cli
