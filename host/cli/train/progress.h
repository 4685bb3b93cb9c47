// Shows the progress of a training run: one repainted line on a terminal, plain lines otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "cli/shell/terminal.h"

namespace lamina::cli {

// The report of one optimizer step.
struct StepReport {
  std::int64_t step = 0;         // 1 is the first of the run
  std::int64_t total_steps = 0;  // of the whole run
  double loss = 0;               // of this step, not smoothed
  double grad_norm = 0;
  double lr = 0;
  std::int64_t tokens = 0;   // of this step
  double total_loss = loss;  // including losses of layers and of multi-token prediction
  std::string task = {};     // metrics of the task: "accuracy 0.75  margin 0.120"
};

// Values computed from the reports so far.
struct Pace {
  double loss_average = 0;       // exponential, over about 20 steps
  double tokens_per_second = 0;  // 0 while unknown
  double seconds_left = -1;      // negative while unknown
};

// "step   120/2000  loss 2.4312  ema 2.4551  gnorm 0.84  lr 2.00e-05  41.2k tok/s  eta 1h12m"
std::string plain_line(const StepReport& report, const Pace& pace);

// The same with a bar and the percentage, never wider than `columns`: first the bar shrinks, then
// fields are omitted, the least important first.
std::string bar_line(const StepReport& report, const Pace& pace, int columns, bool unicode);

// Smooths loss and speed. The first step after the start does not count for the speed: it includes
// compilation.
class PaceMeter {
 public:
  using Clock = std::chrono::steady_clock;
  Pace add(const StepReport& report, Clock::time_point now);

 private:
  std::int64_t num_reports_ = 0;
  double weighted_loss_ = 0, loss_weight_ = 0;
  double seconds_per_step_ = 0, tokens_per_step_ = 0;
  Clock::time_point last_;
};

// The display of one run. While it exists, log messages appear above the bar. [one at a time;
// report() and log messages from any thread]
class ProgressDisplay {
 public:
  enum class Style { automatic, bar, plain, none };

  // Plain lines come every `every_steps` steps and at the last one.
  ProgressDisplay(Style style, std::int64_t every_steps, ColorMode color = ColorMode::automatic);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  // Shows the step; a bar is repainted at most ten times a second.
  void report(const StepReport& report);

  // Ends the bar's line so that its last state stays visible.
  void finish();

 private:
  void paint(const StepReport& report, const Pace& pace);
  void clear();

  std::mutex mutex_;
  Style style_;
  std::int64_t every_steps_;
  ColorMode color_;
  bool unicode_ = false;
  PaceMeter meter_;
  PaceMeter::Clock::time_point last_paint_;
  std::string painted_;  // the text now on the bar's line
};

// True if the environment's locale prints UTF-8.
bool locale_is_utf8();

}  // namespace lamina::cli
