#include "weights/quantise/subtract_product.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace lamina::weights {
namespace {

constexpr std::int64_t kDepth = 128;  // rows of B in a panel, which fits into L1

// A register of the oldest x86-64 and of every later machine.
template <typename T>
using Lanes [[gnu::vector_size(16)]] = T;

constexpr int kRegisters = 2;  // side by side
template <typename T>
constexpr std::int64_t kColumns = kRegisters * 16 / sizeof(T);  // of a panel

// Columns of B side by side, with zeros beside the last one.
template <typename T>
struct Panel {
  alignas(32) T values[kDepth * kColumns<T>];
  std::int64_t depth, columns;

  Panel(MatrixPart<const T> b, std::int64_t num_rows, std::int64_t num_columns)
      : depth(num_rows), columns(num_columns) {
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t j = 0; j < kColumns<T>; ++j)
        values[k * kColumns<T> + j] =
            j < columns ? b.first[k * b.row_stride + j * b.column_stride] : T{0};
  }
};

// kRows rows of C, all columns of a panel.
template <int kRows, typename T>
void subtract_rows(const Panel<T>& panel, MatrixPart<T> c, MatrixPart<const T> a) {
  Lanes<T> sums[kRows][kRegisters];
  for (int r = 0; r < kRows; ++r) std::memcpy(&sums[r], c.first + r * c.row_stride, sizeof sums[r]);
  for (std::int64_t k = 0; k < panel.depth; ++k) {
    Lanes<T> b[kRegisters];
    std::memcpy(&b, panel.values + k * kColumns<T>, sizeof b);
    for (int r = 0; r < kRows; ++r)
      for (int i = 0; i < kRegisters; ++i) sums[r][i] -= a.first[r * a.row_stride + k] * b[i];
  }
  for (int r = 0; r < kRows; ++r) std::memcpy(c.first + r * c.row_stride, &sums[r], sizeof sums[r]);
}

// One row. The last panel may have fewer columns.
template <typename T>
void subtract_row(const Panel<T>& panel, T* c, const T* a) {
  const auto bytes = static_cast<std::size_t>(panel.columns) * sizeof(T);
  T row[kColumns<T>] = {};
  std::memcpy(row, c, bytes);
  subtract_rows<1>(panel, {row, kColumns<T>}, {a, 0});
  std::memcpy(c, row, bytes);
}

}  // namespace

template <typename T>
void subtract_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, MatrixPart<T> c,
                      MatrixPart<const T> a, MatrixPart<const T> b) {
  LAMINA_ASSERT(c.column_stride == 1 && a.column_stride == 1);
  constexpr int kRows = 4;  // together, in registers
  for (std::int64_t k = 0; k < depth; k += kDepth)
    for (std::int64_t j = 0; j < columns; j += kColumns<T>) {
      const Panel<T> panel(
          {b.first + k * b.row_stride + j * b.column_stride, b.row_stride, b.column_stride},
          std::min(kDepth, depth - k), std::min(kColumns<T>, columns - j));
      const auto c_at = [&](std::int64_t i) {
        return MatrixPart<T>{c.first + i * c.row_stride + j, c.row_stride};
      };
      const auto a_at = [&](std::int64_t i) {
        return MatrixPart<const T>{a.first + i * a.row_stride + k, a.row_stride};
      };
      std::int64_t i = 0;
      if (panel.columns == kColumns<T>)
        for (; i + kRows <= rows; i += kRows) subtract_rows<kRows>(panel, c_at(i), a_at(i));
      for (; i < rows; ++i) subtract_row(panel, c_at(i).first, a_at(i).first);
    }
}

template void subtract_product(std::int64_t, std::int64_t, std::int64_t, MatrixPart<float>,
                               MatrixPart<const float>, MatrixPart<const float>);
template void subtract_product(std::int64_t, std::int64_t, std::int64_t, MatrixPart<double>,
                               MatrixPart<const double>, MatrixPart<const double>);

}  // namespace lamina::weights
