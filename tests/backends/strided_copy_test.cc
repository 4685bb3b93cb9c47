// Strided copies, compared with loops.
#include "backends/cpu/layout/strided_copy.h"

#include "vector_support.h"

namespace lamina::cpu {
namespace {

using Strides = std::array<std::int64_t, kMaxDims>;

template <typename T>
void expect_copy(Shape dims, Strides x_strides, Strides y_strides, std::size_t elements) {
  std::vector<T> x(elements), want(elements, T(7)), got;
  for (std::size_t i = 0; i < elements; ++i) x[i] = static_cast<T>(i * 31 + i / 251);
  for (std::int64_t i = 0; i < dims.num_elements(); ++i) {
    std::int64_t from = 0, to = 0, rest = i;
    for (int d = dims.ndim() - 1; d >= 0; --d) {
      from += rest % dims[d] * x_strides[static_cast<std::size_t>(d)];
      to += rest % dims[d] * y_strides[static_cast<std::size_t>(d)];
      rest /= dims[d];
    }
    want[static_cast<std::size_t>(to)] = x[static_cast<std::size_t>(from)];
  }
  expect_same_for_any_threads([&] {
    got.assign(elements, T(7));
    strided_copy({.element_bytes = sizeof(T),
                  .dims = dims,
                  .x = x.data(),
                  .x_strides = x_strides,
                  .y = got.data(),
                  .y_strides = y_strides});
    return got;
  });
  EXPECT_EQ(got, want);
}

template <typename T>
void expect_copies() {
  expect_copy<T>({}, {}, {}, 1);
  expect_copy<T>({5}, {1}, {1}, 8);
  expect_copy<T>({5}, {0}, {1}, 8);
  expect_copy<T>({70, 90}, {90, 1}, {1, 70}, 6300);  // transpose
  expect_copy<T>({70, 90}, {1, 70}, {90, 1}, 6300);
  expect_copy<T>({3, 70, 40, 2}, {5600, 80, 2, 1}, {5600, 2, 140, 1}, 16800);  // heads to front
  expect_copy<T>({3, 40, 33}, {1320, 33, 1}, {1, 3, 120}, 3960);               // all reversed
  expect_copy<T>({4, 10, 6}, {200, 20, 1}, {60, 6, 1}, 800);                   // slice
  expect_copy<T>({4, 10, 6}, {60, 6, 1}, {200, 20, 1}, 800);  // part of a concatenation
  expect_copy<T>({4, 10, 6}, {0, 6, 1}, {60, 6, 1}, 240);     // repeat
  expect_copy<T>({2, 0, 3}, {3, 3, 1}, {3, 3, 1}, 6);
  expect_copy<T>({1, 200000}, {200000, 1}, {200000, 1}, 200000);
}

TEST(StridedCopy, MatchesLoopsForAllLayoutsAndSizes) {
  expect_copies<std::uint8_t>();
  expect_copies<std::uint16_t>();
  expect_copies<std::uint32_t>();
  expect_copies<std::uint64_t>();
}

}  // namespace
}  // namespace lamina::cpu
