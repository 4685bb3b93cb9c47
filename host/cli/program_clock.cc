#include "cli/program_clock.h"

#include <chrono>
#include <ctime>

namespace lamina::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Dynamic linking and static objects.
double seconds_before_main() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace

double program_seconds() {
  static const double before = seconds_before_main();
  static const Clock::time_point main_began = Clock::now();
  return before + std::chrono::duration<double>(Clock::now() - main_began).count();
}

}  // namespace lamina::cli
