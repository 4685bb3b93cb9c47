// One launch reduces many tensors: the bits of one tensor at a time, and few launches.
#include <gtest/gtest.h>

#include <random>

#include "cuda/grouped_work.h"

namespace lamina::testing {
namespace {

Work reduction(const Type& x, const std::vector<std::int64_t>& dims, bool is_max,
               std::mt19937& random, std::size_t shift = 0) {
  return {.inputs = {random_array(x, random)},
          .shift = shift,
          .add = [=](const std::vector<Tensor>& in) {
            Tensor y =
                is_max ? ops::reduce_max(in[0], dims, true) : ops::reduce_sum(in[0], dims, true);
            return std::vector<std::pair<Tensor, int>>{{y, -1}};
          }};
}

// By rows, by columns, of everything, and of the dims around a kept one; short and long enough for
// several splits.
TEST(ReduceGroups, HaveTheBitsOfOneTensorAtATime) {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t count) {
    return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random);
  };
  for (const std::vector<std::int64_t>& dims :
       {std::vector<std::int64_t>{2}, {1}, {0, 1, 2}, {0, 2}})
    for (const bool is_max : {false, true}) {
      std::vector<Work> all;
      for (int i = 0; i < 30; ++i) {
        constexpr std::int64_t kWidths[] = {1, 3, 4, 32, 33, 256, 700};
        const Shape shape{1 + below(3), i % 10 == 0 ? 600 : 1 + below(20),
                          kWidths[below(std::size(kWidths))]};
        all.push_back(
            reduction({DType::f32, shape, {}}, dims, is_max, random, below(4) == 0 ? 4u : 0u));
      }
      SCOPED_TRACE(fmt::format("{} {}", fmt::join(dims, " "), is_max));
      expect_bits_of_one_at_a_time(all);
    }
}

std::int64_t launches_of_reductions(std::size_t count, const Type& x,
                                    const std::vector<std::int64_t>& dims) {
  std::mt19937 random(2);
  std::vector<Work> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(reduction(x, dims, false, random));
  return launches_of(all);
}

TEST(ReduceGroups, ALaunchReducesUpTo24Tensors) {
  const Type rows{DType::f32, {1, 5, 256}, {}};
  EXPECT_EQ(launches_of_reductions(24, rows, {2}), 1);
  EXPECT_EQ(launches_of_reductions(25, rows, {2}), 2);
  EXPECT_EQ(launches_of_reductions(24, rows, {1}), 1);
  // Long ones have a second launch, which joins their parts.
  EXPECT_EQ(launches_of_reductions(24, {DType::f32, {1, 200, 256}, {}}, {0, 1, 2}), 2);
  // Other types are reduced one by one.
  EXPECT_EQ(launches_of_reductions(24, {DType::f64, {1, 5, 256}, {}}, {2}), 24);
}

}  // namespace
}  // namespace lamina::testing
