#include "core/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/on_threads.h"

namespace lamina {
namespace {

using testing::on_four_threads;

TEST(WorkOnAll, CallsEachOnce) {
  for (const Workers& workers : {Workers(), Workers(on_four_threads)})
    for (std::int64_t count : {0, 1, 100}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
      work_on_all(workers, count, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
      for (const auto& times : calls) EXPECT_EQ(times, 1);
    }
}

TEST(WorkOnAll, ThrowsTheErrorOfTheFirst) {
  for (const Workers& workers : {Workers(), Workers(on_four_threads)}) {
    std::string said;
    try {
      work_on_all(workers, 50, [](std::int64_t i) {
        if (i % 7 == 3) throw std::runtime_error("call " + std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
    EXPECT_EQ(said, "call 3");
  }
}

}  // namespace
}  // namespace lamina
