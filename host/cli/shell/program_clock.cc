#include "cli/shell/program_clock.h"

#include <ctime>

#include "core/stopwatch.h"

namespace lamina::cli {
namespace {

// The time of dynamic linking and static constructors.
double seconds_before_main() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace

double program_seconds() {
  static const double before = seconds_before_main();
  static const Stopwatch since_main;
  return before + since_main.seconds();
}

}  // namespace lamina::cli
