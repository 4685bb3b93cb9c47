// The one thread pool of the CPU backend, and functions to use it.
//
//   parallel_tasks(num_heads, [&](std::int64_t head) { attend(head); });
//
// Results must never depend on the number of threads: cut work into tasks by shapes alone, let each
// task write its own outputs, and add up partial results in task order afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace lamina::cpu {

// Sets the size of the pool. num_threads = 0 means one per physical core among the CPUs of the
// affinity mask, at most the cgroup's CPU quota; fewer, with a warning, if the system starts no
// more. With `pin`, thread i stays on the i-th of those CPUs (the caller is thread 0), unless there
// are more threads than CPUs or LAMINA_PIN=0. Earlier plans must not run with more threads than
// they were made for. UserError (usage) below 0, above kMaxThreads, or for another LAMINA_PIN. The
// first use calls set_threads(0, false). [main thread, no work running]
inline constexpr int kMaxThreads = 1024;
void set_threads(int num_threads, bool pin = true);

// Returns the size of the pool, at least 1. [any thread]
int num_threads();

namespace detail {
using RangeFunction = void (*)(const void* context, std::int64_t begin, std::int64_t end,
                               int thread);
void run_ranges(std::int64_t count, std::int64_t min_per_thread, RangeFunction function,
                const void* context);
void run_shares(std::int64_t count, std::int64_t grain, std::int64_t min_per_thread,
                RangeFunction function, const void* context);

template <typename Function>
void call_range(const void* context, std::int64_t begin, std::int64_t end, int thread) {
  const Function& f = *static_cast<const Function*>(context);
  if constexpr (std::is_invocable_v<const Function&, std::int64_t, std::int64_t, int>)
    f(begin, end, thread);
  else
    f(begin, end);
}
}  // namespace detail

// Calls function(begin, end) or function(begin, end, thread) once per thread with contiguous,
// disjoint ranges that cover [0, count); at most one thread per min_per_thread items. Only for work
// whose results do not depend on the ranges (rows, elements). With one range, or inside another
// parallel call, it runs on the calling thread. Rethrows its exceptions.
template <typename Function>
void parallel_ranges(std::int64_t count, std::int64_t min_per_thread, const Function& function) {
  detail::run_ranges(count, min_per_thread, detail::call_range<Function>, std::addressof(function));
}

// The same, but each thread computes its range `grain` items at a time, front to back. Threads that
// are done take half of a slow thread's remaining items at a time, from the back. Calls
// function(begin, end) or function(begin, end, thread) for each of these pieces. REQUIRES: count <
// 2^32.
template <typename Function>
void parallel_shares(std::int64_t count, std::int64_t grain, std::int64_t min_per_thread,
                     const Function& function) {
  detail::run_shares(count, grain, min_per_thread, detail::call_range<Function>,
                     std::addressof(function));
}

// Calls function(task) or function(task, thread) for every task of [0, num_tasks), distributed one
// by one as above. `thread` is below num_threads(), for scratch memory.
template <typename Function>
void parallel_tasks(std::int64_t num_tasks, const Function& function) {
  parallel_shares(num_tasks, 1, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t task = begin; task < end; ++task) {
      if constexpr (std::is_invocable_v<const Function&, std::int64_t, int>)
        function(task, thread);
      else
        function(task);
    }
  });
}

}  // namespace lamina::cpu
