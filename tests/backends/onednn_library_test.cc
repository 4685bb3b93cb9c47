// Opening oneDNN, whose OpenMP reads its environment when it is loaded.
#include "backends/cpu/gemm/onednn.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>

namespace lamina::cpu {
namespace {

int cpus_of_this_thread() {
  cpu_set_t mask;
  sched_getaffinity(0, sizeof mask, &mask);
  return CPU_COUNT(&mask);
}

TEST(OnednnLibrary, OpeningItLeavesTheThreadItsCpus) {
  const int cpus = cpus_of_this_thread();
  if (cpus < 2) GTEST_SKIP() << "one CPU";
  // A process that has not loaded OpenMP yet.
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("OMP_PROC_BIND", "true", 1);
  EXPECT_EXIT(
      {
        open_onednn();
        _exit(cpus_of_this_thread() == cpus ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  unsetenv("OMP_PROC_BIND");
}

}  // namespace
}  // namespace lamina::cpu
