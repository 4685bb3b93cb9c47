// Values that the host gives to programs and takes from them.
#include "program/host_values.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "core/float16.h"

namespace lamina::testing {
namespace {

using program::HostValues;

template <typename T>
T element(const ConstTensorRef& tensor, std::size_t i = 0) {
  return host_view<T>(tensor)[i];
}

TEST(HostValues, AreConvertedToTheTypeOfTheInput) {
  HostValues values;
  const std::size_t f32 = values.add_input({DType::f32, {2}, {}}),
                    f64 = values.add_input({DType::f64, {}, {}}),
                    bf16 = values.add_input({DType::bf16, {}, {}}),
                    i32 = values.add_input({DType::i32, {}, {}});
  values.allocate();
  values.set(f32, std::array{0.1, 0.2});
  values.set(f64, std::array{0.1});
  values.set(bf16, std::array{0.1});
  values.set(i32, std::array{7.0});
  EXPECT_EQ(element<float>(values.input(f32), 1), 0.2F);
  EXPECT_EQ(element<double>(values.input(f64)), 0.1);
  EXPECT_EQ(to_float(element<bfloat16>(values.input(bf16))), to_float(to_bfloat16(0.1F)));
  EXPECT_EQ(element<std::int32_t>(values.input(i32)), 7);
}

TEST(HostValues, IntegersKeepAllTheirBits) {
  constexpr std::int64_t kSeed = (std::int64_t{1} << 62) + 1;  // no f64
  HostValues values;
  const std::size_t seed = values.add_input({DType::i64, {2}, {}});
  values.allocate();
  values.set(seed, std::array{kSeed, std::int64_t{-3}});
  EXPECT_EQ(element<std::int64_t>(values.input(seed)), kSeed);
  EXPECT_EQ(element<std::int64_t>(values.input(seed), 1), -3);
}

TEST(HostValues, AreZeroAtFirstAndStayWhereTheyAre) {
  HostValues values;
  const std::size_t scale = values.add_input({DType::f32, {}, {}});
  values.allocate();
  const ConstTensorRef bound = values.input(scale);
  EXPECT_EQ(element<float>(bound), 0);
  values.set(scale, std::array{2.0});
  EXPECT_EQ(element<float>(bound), 2);
}

TEST(HostValues, OutputsAreReadInTheirTypes) {
  HostValues values;
  const std::size_t loss = values.add_output({DType::f32, {2}, {}}),
                    norm = values.add_output({DType::f64, {}, {}});
  values.allocate();
  host_view<float>(values.output(loss))[1] = 0.1F;
  host_view<double>(values.output(norm))[0] = 0.3;
  EXPECT_EQ(values.get(loss), (std::vector<double>{0, 0.1F}));
  EXPECT_EQ(values.get(norm), std::vector<double>{0.3});
}

}  // namespace
}  // namespace lamina::testing
