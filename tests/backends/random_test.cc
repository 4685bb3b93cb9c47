// Random numbers: the published generator, its distributions, and independence of the division of
// the work.
#include "backends/cpu/random/random.h"

#include <Random123/philox.h>

#include "vector_support.h"

namespace lamina::cpu {
namespace {

constexpr RandomStream kStream = {0x123456789abcdef0u, 0x00fedcba98765432u};

TEST(Random, BitsEqualPhilox4x32) {
  for_each_isa([] {
    std::vector<std::uint32_t> bits(1000);
    const std::int64_t first = (std::int64_t{1} << 36) - 300;  // block numbers cross 2^32
    random_bits(kStream, first, 1000, bits.data());
    for (std::int64_t k = 0; k < 1000; ++k) {
      const std::int64_t i = first + k;
      const auto block = static_cast<std::uint64_t>(i / 64 * 16 + i % 16);
      r123::Philox4x32::ctr_type counter = {{static_cast<std::uint32_t>(block),
                                             static_cast<std::uint32_t>(block >> 32), 0x98765432u,
                                             0x00fedcbau}};
      r123::Philox4x32::key_type key = {{0x9abcdef0u, 0x12345678u}};
      const auto words = r123::Philox4x32()(counter, key);
      ASSERT_EQ(bits[static_cast<std::size_t>(k)], words[static_cast<std::size_t>(i / 16 % 4)])
          << i;
    }
  });
}

TEST(Random, UniformNumbersAreTheSameOnEveryInstructionSetAndThreadCount) {
  std::vector<std::vector<float>> results;
  for_each_isa([&] {
    expect_same_for_any_threads([&] {
      std::vector<float> y(20011);
      fill_uniform(kStream, -2, 3, y.data(), DType::f32, 20011);
      results.push_back(y);
      return y;
    });
  });
  for (const auto& y : results) EXPECT_EQ(y, results[0]);
  std::vector<std::uint32_t> bits(20011);
  random_bits(kStream, 0, 20011, bits.data());
  for (std::size_t i = 0; i < bits.size(); ++i)
    ASSERT_EQ(results[0][i], 5.0f * (static_cast<float>(bits[i] >> 8) * 0x1p-24f) + -2.0f);
}

TEST(Random, StreamsAndSeedsDiffer) {
  std::uint32_t a[8], b[8], c[8];
  random_bits({1, 1}, 0, 8, a);
  random_bits({1, 2}, 0, 8, b);
  random_bits({2, 1}, 0, 8, c);
  for (int i = 0; i < 8; ++i) {
    EXPECT_NE(a[i], b[i]);
    EXPECT_NE(a[i], c[i]);
  }
}

template <typename T>
std::vector<T> dropped(const std::vector<T>& x, float rate, std::int64_t first) {
  std::vector<T> y(x.size());
  dropout({.stream = kStream,
           .rate = rate,
           .dtype = sizeof(T) == 2 ? DType::bf16 : DType::f32,
           .first = first,
           .n = static_cast<std::int64_t>(x.size()),
           .x = x.data(),
           .y = y.data()});
  return y;
}

TEST(Dropout, KeepsAndScalesByTheBits) {
  for_each_isa([] {
    const std::vector<float> x(5000, 3.0f);
    std::vector<std::uint32_t> bits(5000);
    random_bits(kStream, 7, 5000, bits.data());
    const std::vector<float> y = dropped(x, 0.25f, 7);
    int kept = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], bits[i] >= 0x40000000u ? 4.0f : 0.0f);
      kept += y[i] != 0;
    }
    EXPECT_NEAR(kept, 3750, 150);
  });
}

TEST(Dropout, PartsEqualTheWhole) {
  const std::vector<float> x = normal_floats(10000, 1);
  for_each_isa([&] {
    expect_same_for_any_threads([&] { return dropped(x, 0.5f, 100); });
    const std::vector<float> whole = dropped(x, 0.5f, 100);
    const std::vector<float> part =
        dropped(std::vector<float>(x.begin() + 777, x.end()), 0.5f, 877);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 777));
  });
}

TEST(Dropout, RateZeroKeepsEverythingAndDroppedInfinityIsZero) {
  const std::vector<float> x(100, INFINITY);
  EXPECT_EQ(dropped(x, 0, 0), x);
  for (float y : dropped(x, 0.9f, 0)) EXPECT_TRUE(y == 0 || std::isinf(y));
  EXPECT_TRUE(dropped(std::vector<float>{}, 0.5f, 3).empty());
}

TEST(Dropout, Bf16RoundsTheScaledValue) {
  const std::vector<bfloat16> x(64, to_bfloat16(1.0f));
  for (bfloat16 y : dropped(x, 0.1f, 0))
    EXPECT_TRUE(y.bits == 0 || y.bits == to_bfloat16(1.0f / 0.9f).bits);
}

}  // namespace
}  // namespace lamina::cpu
