// The thread pool: coverage, order, nesting, size.
#include "backends/cpu/threads/threads.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <set>
#include <thread>

#include "core/cpu_mask.h"
#include "support/expect_error.h"

namespace lamina::cpu {
namespace {

TEST(Threads, Example) {
  set_threads(2, false);
  std::vector<int> squares(7);
  parallel_tasks(7, [&](std::int64_t task) {
    squares[static_cast<std::size_t>(task)] = static_cast<int>(task * task);
  });
  EXPECT_EQ(squares, (std::vector<int>{0, 1, 4, 9, 16, 25, 36}));
}

TEST(Threads, ExceptionsOfTasksReachTheCaller) {
  for (int threads : {1, 4}) {
    set_threads(threads, false);
    for (std::int64_t bad : {0, 37, 99}) {
      auto work = [&] {
        parallel_tasks(100, [&](std::int64_t task) {
          if (task == bad) throw std::bad_alloc();
        });
      };
      EXPECT_THROW(work(), std::bad_alloc);
      // From inside another region as well.
      EXPECT_THROW(parallel_tasks(4, [&](std::int64_t) { work(); }), std::bad_alloc);
    }
    std::atomic<int> calls{0};
    parallel_tasks(100, [&](std::int64_t) { ++calls; });
    EXPECT_EQ(calls.load(), 100);  // the pool works on
  }
}

TEST(MemoryFaults, FewerThreadsThanRequestedAreAWarning) {
  // A process without the threads that other tests have started.
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const rlimit none{};
        if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(1);
        if (geteuid() == 0 && setuid(65534) != 0) _exit(1);  // root has no limit
        set_threads(3, false);
        std::atomic<int> calls{0};
        parallel_tasks(10, [&](std::int64_t) { ++calls; });
        _exit(num_threads() == 1 && calls.load() == 10 ? 0 : 2);
      },
      ::testing::ExitedWithCode(0),
      "warning: threads: the system starts 1 of 3; continuing with them. Ask for fewer with -t");
}

TEST(Threads, EveryTaskRunsOnceForAnyPoolSize) {
  for (int threads : {1, 2, 3, 8}) {
    set_threads(threads, false);
    for (std::int64_t tasks : {0, 1, 2, 3, 7, 8, 9, 100}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      parallel_tasks(tasks, [&](std::int64_t task, int thread) {
        EXPECT_LT(thread, threads);
        ++runs[static_cast<std::size_t>(task)];
      });
      for (auto& count : runs) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(Threads, RangesAreContiguousAndNoFinerThanAsked) {
  set_threads(4, false);
  std::atomic<std::int64_t> covered{0};
  std::atomic<int> calls{0};
  parallel_ranges(250, 100, [&](std::int64_t begin, std::int64_t end) {
    covered += end - begin;
    ++calls;
  });
  EXPECT_EQ(covered.load(), 250);
  EXPECT_EQ(calls.load(), 2);
}

TEST(Threads, SharesCoverEveryItemOnceForAnyPoolSize) {
  for (int threads : {1, 2, 3, 8}) {
    set_threads(threads, false);
    for (std::int64_t count : {0, 1, 7, 8, 1000}) {
      for (std::int64_t grain : {1, 3, 2000}) {
        std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
        parallel_shares(count, grain, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
          EXPECT_LT(thread, threads);
          EXPECT_LE(end - begin, threads > 1 ? grain : count);
          for (std::int64_t i = begin; i < end; ++i) ++calls[static_cast<std::size_t>(i)];
        });
        for (auto& n : calls) EXPECT_EQ(n.load(), 1);
      }
    }
  }
}

TEST(Threads, FreeThreadTakesUnbegunWorkOfASlowOne) {
  set_threads(2, false);
  std::atomic<int> others{0};
  // The first item waits until all the others are done.
  parallel_shares(64, 1, 1, [&](std::int64_t begin, std::int64_t end) {
    if (begin > 0) others += static_cast<int>(end - begin);
    while (begin == 0 && others.load() < 63) std::this_thread::yield();
  });
  EXPECT_EQ(others.load(), 63);
}

TEST(Threads, RegionsOfSeveralCallersAtOnce) {
  set_threads(3, false);
  std::atomic<int> runs{0};
  const auto caller = [&] {
    for (int i = 0; i < 200; ++i) parallel_tasks(5, [&](std::int64_t) { ++runs; });
  };
  std::thread other(caller);
  caller();
  other.join();
  EXPECT_EQ(runs.load(), 2 * 200 * 5);
}

TEST(Threads, ThreadsThatFellAsleepAreWoken) {
  set_threads(2, false);
  std::atomic<int> runs{0};
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    parallel_tasks(4, [&](std::int64_t) { ++runs; });
  }
  EXPECT_EQ(runs.load(), 20 * 4);
}

TEST(Threads, NestedCallRunsOnItsOwnThread) {
  set_threads(2, false);
  parallel_tasks(2, [&](std::int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    parallel_tasks(4, [&](std::int64_t) { EXPECT_EQ(std::this_thread::get_id(), outer); });
  });
}

TEST(Threads, OneTaskRunsOnTheCaller) {
  set_threads(2, false);
  parallel_tasks(1, [caller = std::this_thread::get_id()](std::int64_t) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

int cpus_of_this_thread() {
  cpu_set_t mask;
  sched_getaffinity(0, sizeof mask, &mask);
  return CPU_COUNT(&mask);
}

const int kAllowedCpus = cpus_of_this_thread();  // before any test pins it

TEST(Threads, ZeroMeansAtMostTheAllowedCpus) {
  set_threads(0, false);
  EXPECT_GE(num_threads(), 1);
  EXPECT_LE(num_threads(), kAllowedCpus);
}

TEST(Threads, PinnedThreadCanBeReleased) {
  set_threads(1, true);
  EXPECT_EQ(cpus_of_this_thread(), 1);
  unpin_this_thread();
  EXPECT_EQ(cpus_of_this_thread(), kAllowedCpus);
}

TEST(Threads, EnvironmentForbidsPinning) {
  const int before = cpus_of_this_thread();
  setenv("LAMINA_PIN", "0", 1);
  set_threads(1, true);
  unsetenv("LAMINA_PIN");
  EXPECT_EQ(cpus_of_this_thread(), before);
}

TEST(Threads, RejectsBadPinValue) {
  setenv("LAMINA_PIN", "yes", 1);
  EXPECT_USER_ERROR(set_threads(1, true), ExitCode::usage,
                    "LAMINA_PIN: got 'yes'; threads are pinned (1) or not (0)\n"
                    "  use 0 or 1, or unset it");
  unsetenv("LAMINA_PIN");
}

TEST(Threads, RejectsImpossiblePoolSize) {
  EXPECT_USER_ERROR(set_threads(-1), ExitCode::usage,
                    "threads: got -1 threads; 0 (all cores) to 1024 are possible");
}

}  // namespace
}  // namespace lamina::cpu
