// The memory plan: properties on random lifetimes.
#include "runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
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

// Returns the lowest offset of block `b` beside the blocks in `placed` that live with it.
std::size_t lowest_gap(const std::vector<Lifetime>& lives, std::size_t b,
                       std::vector<std::size_t> placed, const MemoryPlan& plan) {
  std::ranges::sort(placed, {}, [&](std::size_t i) { return plan.offsets[i]; });
  std::size_t offset = 0;
  for (std::size_t i : placed) {
    if (lives[i].first > lives[b].last || lives[b].first > lives[i].last) continue;
    if (plan.offsets[i] >= offset + lives[b].bytes) break;
    offset = std::max(offset, plan.offsets[i] + (lives[i].bytes + 63) / 64 * 64);
  }
  return offset;
}

TEST(MemoryPlan, LargestBlocksComeFirstEachInTheLowestGap) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    std::vector<Lifetime> lives(random() % 60);
    for (Lifetime& l : lives) {
      l.bytes = 64 * (1 + random() % 20);
      l.first = static_cast<int>(random() % 37);
      l.last = l.first + static_cast<int>(random() % (random() % 3 == 0 ? 30 : 3));
    }
    std::ranges::stable_sort(lives, std::ranges::greater(), &Lifetime::bytes);
    const MemoryPlan plan = plan_memory(lives);
    std::vector<std::size_t> placed;
    for (std::size_t b = 0; b < lives.size(); ++b) {
      EXPECT_EQ(plan.offsets[b], lowest_gap(lives, b, placed, plan));
      placed.push_back(b);
    }
  }
}

// As in an unrolled step of training: values of each layer that live until its backward pass.
TEST(MemoryPlan, TakesNoTimeThatGrowsWithTheSquareOfTheLayers) {
  constexpr int kLayers = 60'000;
  std::vector<Lifetime> lives;
  for (int i = 0; i < kLayers; ++i) {
    lives.push_back({4096, i, 2 * kLayers - i});
    lives.push_back({8192, i, i});
    lives.push_back({2048, 2 * kLayers - i, 2 * kLayers - i});
  }
  const std::clock_t begin = std::clock();
  const MemoryPlan plan = plan_memory(lives);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);
  EXPECT_EQ(plan.arena_bytes, plan.lower_bound_bytes);
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
