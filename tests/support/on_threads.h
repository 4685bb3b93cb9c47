// Workers for tests.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace lamina::testing {

// Runs all items on four threads: Workers of core/workers.h.
inline void on_four_threads(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (std::int64_t n; (n = next++) < count;) work(n);
    });
}

}  // namespace lamina::testing
