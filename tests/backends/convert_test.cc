// Conversions against the scalar ones, transposes and strided copies against loops.
#include "backends/cpu/layout/convert.h"

#include <bit>
#include <cstring>

#include "vector_support.h"

namespace lamina::cpu {
namespace {

std::vector<float> numbers_of_all_sizes() {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 100003)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (float special : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 65504.0f, 65520.0f, 1e-8f})
    x.push_back(special);
  return x;
}

TEST(Convert, F32ToShortTypesAndBackMatchTheScalarConversions) {
  const std::vector<float> x = numbers_of_all_sizes();
  const auto n = static_cast<std::int64_t>(x.size());
  for_each_isa([&] {
    std::vector<bfloat16> b(x.size());
    std::vector<float16> h(x.size());
    std::vector<float> from_b(x.size()), from_h(x.size());
    convert(x.data(), DType::f32, b.data(), DType::bf16, n);
    convert(x.data(), DType::f32, h.data(), DType::f16, n);
    convert(b.data(), DType::bf16, from_b.data(), DType::f32, n);
    convert(h.data(), DType::f16, from_h.data(), DType::f32, n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(b[i].bits, to_bfloat16(x[i]).bits);
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(from_h[i]) && std::isnan(from_b[i]));
        continue;
      }
      ASSERT_EQ(h[i].bits, to_float16(x[i]).bits) << x[i];
      ASSERT_EQ(from_b[i], to_float(b[i]));
      ASSERT_EQ(from_h[i], to_float(h[i]));
    }
  });
}

TEST(Convert, EverySizeOfEveryPairOfTypes) {
  const DType types[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
  for_each_isa([&] {
    for (DType from : types)
      for (DType to : types)
        for (std::int64_t n : {0, 1, 15, 16, 17, 100, 40001}) {
          // 0.5, 1, 1.5, ... up to 64 are exact in all four.
          std::vector<double> values(static_cast<std::size_t>(n) + 1);
          for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = 0.5 * static_cast<double>(i % 128);
          std::vector<double> x(values.size()), y(values.size(), -1), back(values.size(), -1);
          convert(values.data(), DType::f64, x.data(), from, n);
          convert(x.data(), from, y.data(), to, n);
          convert(y.data(), to, back.data(), DType::f64, n);
          for (std::int64_t i = 0; i < n; ++i)
            ASSERT_EQ(back[static_cast<std::size_t>(i)], values[static_cast<std::size_t>(i)]);
          ASSERT_EQ(back[static_cast<std::size_t>(n)], -1);
        }
  });
}

TEST(Convert, TransposesWithAndWithoutConversion) {
  for_each_isa([] {
    for (auto [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                 {3, 40},
                                 {33, 31},
                                 {64, 100},
                                 {0, 5},
                                 {5, 0}}) {
      const std::int64_t x_stride = columns + 3, y_stride = rows + 2;
      const auto x = as<bfloat16>(normal_floats(static_cast<std::size_t>(rows * x_stride + 1), 1));
      expect_same_for_any_threads([&, r = rows, c = columns] {
        std::vector<float> y(static_cast<std::size_t>(c * y_stride + 1), 9.0f);
        std::vector<std::uint16_t> z(y.size(), 9);
        convert_transposed(x.data(), DType::bf16, r, c, x_stride, y.data(), DType::f32, y_stride);
        convert_transposed(x.data(), DType::bf16, r, c, x_stride, z.data(), DType::bf16, y_stride);
        for (std::int64_t j = 0; j < c; ++j)
          for (std::int64_t i = 0; i < y_stride; ++i) {
            const auto at = static_cast<std::size_t>(j * y_stride + i);
            const bfloat16 want = x[static_cast<std::size_t>(i < r ? i * x_stride + j : 0)];
            EXPECT_EQ(y[at], i < r ? to_float(want) : 9.0f);
            EXPECT_EQ(z[at], i < r ? want.bits : 9);
          }
        return y;
      });
    }
  });
}

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
