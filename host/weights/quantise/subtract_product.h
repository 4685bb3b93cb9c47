// Products of parts of matrices on one thread, for methods that factorise and correct in blocks.
#pragma once

#include <cstdint>

namespace lamina::weights {

// A part of a matrix: value (i, j) is at first[i * row_stride + j * column_stride].
template <typename T>
struct MatrixPart {
  T* first;
  std::int64_t row_stride, column_stride = 1;
};

// C -= A B, where C is [rows, columns], A [rows, depth] and B [depth, columns]. The values of each
// row of C and A are adjacent. An element of C is one chain of differences in the order of `depth`,
// for any number of rows and columns. C does not overlap A or B. For float and double.
template <typename T>
void subtract_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, MatrixPart<T> c,
                      MatrixPart<const T> a, MatrixPart<const T> b);

extern template void subtract_product(std::int64_t, std::int64_t, std::int64_t, MatrixPart<float>,
                                      MatrixPart<const float>, MatrixPart<const float>);
extern template void subtract_product(std::int64_t, std::int64_t, std::int64_t, MatrixPart<double>,
                                      MatrixPart<const double>, MatrixPart<const double>);

}  // namespace lamina::weights
