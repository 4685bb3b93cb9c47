// Sizes that overflow are errors, not small numbers.
#include "core/shape.h"

#include <limits>

#include "support/expect_error.h"

namespace lamina {
namespace {

TEST(Shape, Example) {
  EXPECT_EQ((Shape{2, 3, 4}).num_elements(), 24);
  EXPECT_EQ(Shape{}.num_elements(), 1);
  EXPECT_EQ((Shape{5, 0}).num_elements(), 0);
}

TEST(Shape, ProductsOfDimsDoNotOverflow) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ((Shape{1 << 25, 1 << 25}).num_elements(), std::int64_t{1} << 50);
  for (const Shape& shape : {Shape{kMax, 2}, Shape{1 << 30, 1 << 30, 1 << 30}, Shape{kMax, kMax},
                             Shape{(1 << 25) + 1, 1 << 25}})
    EXPECT_ERROR_SAYS(shape.num_elements(), ExitCode::memory,
                      to_string(shape) + " has more than 2^50 elements, which exceeds any memory");
}

TEST(Shape, ADimOf0AfterOthersThatOverflowMakes0Elements) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  EXPECT_EQ((Shape{kLarge, kLarge, 0}).num_elements(), 0);
  EXPECT_EQ((Shape{kLarge, 0, kLarge, kLarge}).num_elements(), 0);
}

}  // namespace
}  // namespace lamina
