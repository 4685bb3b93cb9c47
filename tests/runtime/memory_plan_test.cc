// The memory plan: properties on random lifetimes.
#include "runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lamina {
namespace {

void expect_sound(const std::vector<Lifetime>& lives) {
  MemoryPlan plan = plan_memory(lives);
  ASSERT_EQ(plan.offsets.size(), lives.size());
  EXPECT_GE(plan.arena_bytes, plan.lower_bound_bytes);
  for (std::size_t i = 0; i < lives.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0u);
    EXPECT_LE(plan.offsets[i] + lives[i].bytes, plan.arena_bytes);
    for (std::size_t j = 0; j < i; ++j) {
      bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
      bool apart = plan.offsets[i] + lives[i].bytes <= plan.offsets[j] ||
                   plan.offsets[j] + lives[j].bytes <= plan.offsets[i];
      ASSERT_TRUE(!together || apart) << i << " and " << j << " overlap";
    }
  }
}

TEST(MemoryPlan, Example) {
  // a is dead when c is created: c uses its memory.
  std::vector<Lifetime> lives = {{100, 0, 1}, {100, 1, 2}, {100, 2, 3}};
  MemoryPlan plan = plan_memory(lives);
  EXPECT_EQ(plan.arena_bytes, 256u);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(MemoryPlan, BlocksAliveTogetherNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> lives(random() % 40);
    for (Lifetime& l : lives) {
      l.bytes = random() % 5 == 0 ? 0 : random() % 5000;
      l.first = static_cast<int>(random() % 30);
      l.last = l.first + static_cast<int>(random() % 10);
    }
    expect_sound(lives);
  }
}

TEST(MemoryPlan, ChainNeedsNoMoreThanItsLowerBound) {
  std::vector<Lifetime> lives;
  for (int i = 0; i < 100; ++i) lives.push_back({std::size_t{1} << 12, i, i + 1});
  MemoryPlan plan = plan_memory(lives);
  EXPECT_EQ(plan.arena_bytes, plan.lower_bound_bytes);
  EXPECT_EQ(plan.arena_bytes, std::size_t{2} << 12);
}

TEST(MemoryPlan, NothingNeedsNothing) {
  EXPECT_EQ(plan_memory({}).arena_bytes, 0u);
  std::vector<Lifetime> lives = {{0, 0, 5}, {0, 2, 3}};
  EXPECT_EQ(plan_memory(lives).arena_bytes, 0u);
}

}  // namespace
}  // namespace lamina
