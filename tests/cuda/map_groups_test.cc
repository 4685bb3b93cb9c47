// One launch computes the maps of many tensors: the bits of one tensor at a time, and few launches.
#include <gtest/gtest.h>

#include <random>

#include "cuda/grouped_work.h"

namespace lamina::testing {
namespace {

enum class MapOperands { whole, row, column, number };

// x * y with a y that extends along some dims of x; over x if `in_place`.
Work product(const Type& x, MapOperands form, std::mt19937& random, bool in_place = false,
             std::size_t shift = 0) {
  Type y = x;
  if (form == MapOperands::row) y.shape[0] = y.shape[1] = 1;
  if (form == MapOperands::column) y.shape[2] = 1;
  if (form == MapOperands::number) y = {x.dtype, {}, {}};
  return {.inputs = {random_array(x, random, 1, 9), random_array(y, random, 1, 9)},
          .shift = shift,
          .add = [in_place](const std::vector<Tensor>& in) {
            return std::vector<std::pair<Tensor, int>>{{in[0] * in[1], in_place ? 0 : -1}};
          }};
}

TEST(MapGroups, HaveTheBitsOfOneTensorAtATime) {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t count) {
    return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random);
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64}) {
    for (const MapOperands form :
         {MapOperands::whole, MapOperands::row, MapOperands::column, MapOperands::number}) {
      std::vector<Work> all;
      for (int i = 0; i < 60; ++i) {
        constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 7, 8, 33, 300};
        const Shape shape{1 + below(3), 1 + below(9), kSizes[below(std::size(kSizes))]};
        all.push_back(
            product({dtype, shape, {}}, form, random, below(2) == 0, below(4) == 0 ? 8u : 0u));
      }
      SCOPED_TRACE(std::string(name(dtype)) + std::to_string(static_cast<int>(form)));
      expect_bits_of_one_at_a_time(all);
    }
  }
}

std::int64_t launches_of_products(int count, const Shape& shape, MapOperands form,
                                  DType dtype = DType::f64) {
  std::mt19937 random(2);
  std::vector<Work> all;
  for (int i = 0; i < count; ++i) all.push_back(product({dtype, shape, {}}, form, random));
  return launches_of(all);
}

// The parameters of a launch have room for 48 tensors, or less if they have dims.
TEST(MapGroups, ALaunchComputesUpTo48Tensors) {
  EXPECT_EQ(launches_of_products(48, {2, 3, 5}, MapOperands::whole), 1);
  EXPECT_EQ(launches_of_products(49, {2, 3, 5}, MapOperands::whole), 2);
  EXPECT_EQ(launches_of_products(48, {2, 3, 5}, MapOperands::number), 1);
  EXPECT_EQ(launches_of_products(96, {2, 3, 5}, MapOperands::column), 2);
}

// A ready-made kernel multiplies f32; the interpreter takes several tensors of up to 2^16 elements.
TEST(MapGroups, TakeSmallTensorsOfReadyMaps) {
  EXPECT_EQ(launches_of_products(30, {2, 3, 5}, MapOperands::whole, DType::f32), 1);
  EXPECT_EQ(launches_of_products(2, {1, 1, (1 << 16) + 1}, MapOperands::whole, DType::f32), 2);
}

// Tensors of other sizes share a launch, tensors with other dims or types do not.
TEST(MapGroups, HaveOneForm) {
  std::mt19937 random(3);
  const auto launches = [&](std::initializer_list<std::pair<Shape, MapOperands>> maps,
                            std::initializer_list<DType> dtypes = {DType::f64, DType::f64}) {
    std::vector<Work> all;
    for (std::size_t i = 0; i < 2; ++i)
      all.push_back(
          product({dtypes.begin()[i], maps.begin()[i].first, {}}, maps.begin()[i].second, random));
    return launches_of(all);
  };
  using enum MapOperands;
  EXPECT_EQ(launches({{{2, 3, 5}, whole}, {{1, 1, 999}, whole}}), 1);
  EXPECT_EQ(launches({{{2, 3, 5}, row}, {{1, 7, 9}, row}}), 1);
  EXPECT_EQ(launches({{{2, 3, 5}, row}, {{2, 3, 5}, column}}), 2);
  EXPECT_EQ(launches({{{2, 3, 5}, whole}, {{2, 3, 5}, column}}), 2);
  EXPECT_EQ(launches({{{2, 3, 5}, whole}, {{2, 3, 5}, whole}}, {DType::f64, DType::i64}), 2);
}

}  // namespace
}  // namespace lamina::testing
