// An order is a permutation for every size, and looks random.
#include "data/row_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lamina::data {
namespace {

TEST(RowOrder, Example) {
  const RowOrder order(5, /*seed=*/1, /*epoch=*/0);
  std::vector<int> seen(5);
  for (std::uint64_t i = 0; i < 5; ++i) ++seen[order[i]];
  EXPECT_EQ(seen, std::vector<int>(5, 1));
}

TEST(RowOrder, IsAPermutationForEverySize) {
  for (std::uint64_t n = 1; n < 300; ++n) {
    const RowOrder order(n, n * 7, n % 5);
    std::vector<int> seen(n);
    for (std::uint64_t i = 0; i < n; ++i) ++seen[order[i]];
    EXPECT_EQ(seen, std::vector<int>(n, 1)) << n;
  }
}

// The order must never change: otherwise a resumed run would see some rows twice.
TEST(RowOrder, StaysTheSameForever) {
  const RowOrder order(10, 42, 3);
  std::vector<std::uint64_t> got;
  for (std::uint64_t i = 0; i < 10; ++i) got.push_back(order[i]);
  EXPECT_EQ(got, (std::vector<std::uint64_t>{8, 6, 7, 2, 4, 3, 9, 0, 5, 1}));
}

TEST(RowOrder, FirstPlacesAreUniformOverSeeds) {
  constexpr int kThings = 10, kSeeds = 20000;
  std::vector<int> counts(kThings * kThings);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RowOrder order(kThings, seed, 0);
    for (std::uint64_t i = 0; i < kThings; ++i) ++counts[i * kThings + order[i]];
  }
  // Each count is binomial with mean 2000 and deviation 42.
  for (int count : counts) EXPECT_LT(std::abs(count - kSeeds / kThings), 6 * 42);
}

TEST(RowOrder, HandlesVeryManyRows) {
  const std::uint64_t n = (std::uint64_t{1} << 40) + 12345;
  const RowOrder order(n, 1, 1);
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_LT(order[n - 1 - i], n);
}

}  // namespace
}  // namespace lamina::data
