#include "core/hash_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

namespace lamina {
namespace {

const auto yes = [](std::int32_t) { return true; };

TEST(HashIndex, Example) {
  HashIndex index(2);
  EXPECT_EQ(index.insert(0x123, 7, yes), -1);
  EXPECT_EQ(index.insert(0x123, 8, yes), 7) << "the same item is there";
  EXPECT_EQ(index.find(0x123, yes), 7);
  EXPECT_EQ(index.find(0x456, yes), -1);
}

TEST(HashIndex, DistinguishesItemsOfOneHashAndWrapsAround) {
  constexpr std::uint64_t kLastPlace = ~std::uint64_t{0};
  constexpr std::int32_t kItems = 100;
  HashIndex index(kItems);
  for (std::int32_t i = 0; i < kItems; ++i)
    EXPECT_EQ(index.insert(kLastPlace, i, [&](std::int32_t item) { return item == i; }), -1);
  for (std::int32_t i = 0; i < kItems; ++i)
    EXPECT_EQ(index.find(kLastPlace, [&](std::int32_t item) { return item == i; }), i);
  EXPECT_EQ(index.find(kLastPlace, [](std::int32_t) { return false; }), -1);
}

TEST(HashIndex, IsEmptyForCapacityZero) {
  const HashIndex index(0);
  EXPECT_EQ(index.find(0, yes), -1);
}

TEST(LargeVector, BeginsAtALargePageOnceItFillsOne) {
  constexpr std::uintptr_t kHugePage = std::uintptr_t{1} << 21;
  LargeVector<std::int32_t> values;
  for (std::int32_t i = 0; i < 3'000'000; ++i) values.push_back(i);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values.data()) % kHugePage, 0u);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), std::int64_t{0}),
            std::int64_t{3'000'000} * 2'999'999 / 2);
}

}  // namespace
}  // namespace lamina
