// Decoding over keys and values in int8: queries and scales at the edges of integers of 16 bits.
#include <gtest/gtest.h>

#include "attention_checks.h"

namespace lamina::cpu {
namespace {

// One token after 130 others, whose keys and values are int8, with `group` query heads for each of
// two key heads. Dims are kDim.
constexpr std::int64_t kDim = 64;
AttentionProblem int8_problem(std::int64_t group) {
  AttentionProblem p = cached_problem(make_spec(1, 1, 300, 2 * group, 2, kDim, kDim), {130}, false);
  p.spec.cached = CachedRows::int8;
  return p;
}

// Groups whose dot products are computed one at a time, and of transposed keys.
constexpr std::int64_t kGroups[] = {1, 2, 8};

// Expects NaN in the results of the heads [begin, end), and numbers elsewhere.
void expect_no_numbers(const AttentionProblem& p, std::int64_t begin, std::int64_t end) {
  const Doubles o = run_attention(p, DType::bf16).o;
  for (std::int64_t i = 0; i < p.spec.heads * kDim; ++i) {
    const std::int64_t head = i / kDim;
    EXPECT_EQ(std::isnan(o[static_cast<std::size_t>(i)]), begin <= head && head < end) << i;
  }
}

TEST(Attention, AQueryThatIsNotFiniteGivesNoNumbers) {
  for (Isa isa : isas())
    for (std::int64_t group : kGroups)
      for (const double bad : {double{NAN}, double{INFINITY}}) {
        SCOPED_TRACE(std::string(name(isa)) + ", group " + std::to_string(group));
        const ScopedIsa scoped(isa);
        AttentionProblem p = int8_problem(group);
        p.q[static_cast<std::size_t>(group * kDim + 3)] = bad;
        expect_no_numbers(p, group, group + 1);
      }
}

TEST(Attention, AValueScaleThatIsNotFiniteGivesNoNumbers) {
  constexpr std::size_t kSlot = 3, kHead = 1;
  for (Isa isa : isas())
    for (std::int64_t group : kGroups)
      for (const double bad : {double{NAN}, double{INFINITY}}) {
        SCOPED_TRACE(std::string(name(isa)) + ", group " + std::to_string(group));
        const ScopedIsa scoped(isa);
        AttentionProblem p = int8_problem(group);
        p.v[(kSlot * 2 + kHead) * kDim + 7] = bad;
        expect_no_numbers(p, group, 2 * group);
      }
}

// Queries below 2^-110 count as 0 where they become integers, even if the scale makes logits of
// them.
TEST(Attention, TinyQueriesWeighAllSlotsEqually) {
  if (best_isa() < Isa::avx2) GTEST_SKIP() << "needs AVX2, which multiplies queries as integers";
  for (Isa isa : isas())
    for (std::int64_t group : kGroups) {
      if (isa < Isa::avx2) continue;
      SCOPED_TRACE(std::string(name(isa)) + ", group " + std::to_string(group));
      const ScopedIsa scoped(isa);
      AttentionProblem zero = int8_problem(group), tiny = zero;
      std::ranges::fill(zero.q, 0);
      for (double& x : tiny.q) x = std::ldexp(std::clamp(x, -1.0, 1.0), -111);
      tiny.spec.scale = 0x1p111;
      expect_close(run_attention(tiny, DType::bf16), reference_of_numbers(zero), DType::bf16);
    }
}

// 255/128 times a power of two is the largest mantissa of bf16: with the factor of smaller ones it
// has no two signed bytes.
TEST(Attention, QueriesOfLargeMantissasKeepTheTolerance) {
  constexpr double kLargest = 255.0 / 128 * 2;
  for (Isa isa : isas())
    for (std::int64_t group : kGroups) {
      SCOPED_TRACE(std::string(name(isa)) + ", group " + std::to_string(group));
      const ScopedIsa scoped(isa);
      AttentionProblem p = int8_problem(group);
      for (double& x : p.q) x = std::clamp(x, -kLargest, kLargest);
      for (std::int64_t head = 0; head < p.spec.heads; ++head)
        p.q[static_cast<std::size_t>(head * kDim + 5)] = kLargest;
      expect_close(run_attention(p, DType::bf16), reference_of_numbers(p), DType::bf16);
    }
}

}  // namespace
}  // namespace lamina::cpu
