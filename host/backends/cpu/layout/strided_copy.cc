// Strided copies, cut into blocks that stay in the cache.
#include "backends/cpu/layout/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

const std::byte* at(const void* p, std::int64_t bytes) {
  return static_cast<const std::byte*>(p) + bytes;
}
std::byte* at(void* p, std::int64_t bytes) { return static_cast<std::byte*>(p) + bytes; }

// Side of the square blocks of transposes.
constexpr std::int64_t kBlock = 64;

template <typename T, int N>
using Lanes __attribute__((vector_size(sizeof(T) * N))) = T;

// One step of a transpose: lanes of a and b alternately.
template <typename T>
struct Interleaved {
  static constexpr int kCount = 16 / sizeof(T);
  using V = Lanes<T, kCount>;
  static V low(V a, V b) {
    if constexpr (kCount == 4)
      return __builtin_shufflevector(a, b, 0, 4, 1, 5);
    else
      return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  }
  static V high(V a, V b) {
    if constexpr (kCount == 4)
      return __builtin_shufflevector(a, b, 2, 6, 3, 7);
    else
      return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  }
};

// Transposes a square of kCount x kCount elements through kCount registers: interleaves the first
// half of the rows with the second half, log2(kCount) times.
template <typename T>
void transpose_square(T* y, std::int64_t y_stride, const T* x, std::int64_t x_stride) {
  using Step = Interleaved<T>;
  constexpr int n = Step::kCount;
  typename Step::V rows[n], next[n];
  for (int i = 0; i < n; ++i) std::memcpy(&rows[i], x + i * x_stride, 16);
  for (int width = n; width > 1; width /= 2) {
    for (int i = 0; i < n / 2; ++i) {
      next[2 * i] = Step::low(rows[i], rows[i + n / 2]);
      next[2 * i + 1] = Step::high(rows[i], rows[i + n / 2]);
    }
    std::copy_n(next, n, rows);
  }
  for (int i = 0; i < n; ++i) std::memcpy(y + i * y_stride, &rows[i], 16);
}

// y[c * y_stride + r] = x[r * x_stride + c] for a block of at most kBlock x kBlock. Strides that
// are large powers of two would map all rows to a few places of the cache, hence the packed copies.
template <typename T>
void transpose_block(void* y, std::int64_t y_stride, const void* x, std::int64_t x_stride,
                     std::int64_t rows, std::int64_t columns) {
  T* to = static_cast<T*>(y);
  const T* from = static_cast<const T*>(x);
  if (sizeof(T) == 1 || sizeof(T) == 8 || rows < kBlock || columns < kBlock) {
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t r = 0; r < rows; ++r) to[c * y_stride + r] = from[r * x_stride + c];
    return;
  }
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    alignas(64) T packed[kBlock * kBlock], transposed[kBlock * kBlock];
    for (std::int64_t r = 0; r < kBlock; ++r)
      std::memcpy(packed + r * kBlock, from + r * x_stride, kBlock * sizeof(T));
    constexpr std::int64_t kSide = Interleaved<T>::kCount;
    for (std::int64_t r = 0; r < kBlock; r += kSide)
      for (std::int64_t c = 0; c < kBlock; c += kSide)
        transpose_square(transposed + c * kBlock + r, kBlock, packed + r * kBlock + c, kBlock);
    for (std::int64_t c = 0; c < kBlock; ++c)
      std::memcpy(to + c * y_stride, transposed + c * kBlock, kBlock * sizeof(T));
  }
}
void transpose_block(int bytes, void* y, std::int64_t y_stride, const void* x,
                     std::int64_t x_stride, std::int64_t rows, std::int64_t columns) {
  switch (bytes) {
    case 1:
      return transpose_block<std::uint8_t>(y, y_stride, x, x_stride, rows, columns);
    case 2:
      return transpose_block<std::uint16_t>(y, y_stride, x, x_stride, rows, columns);
    case 4:
      return transpose_block<std::uint32_t>(y, y_stride, x, x_stride, rows, columns);
    default:
      return transpose_block<std::uint64_t>(y, y_stride, x, x_stride, rows, columns);
  }
}

template <typename T>
void copy_run(void* y, std::int64_t y_stride, const void* x, std::int64_t x_stride,
              std::int64_t n) {
  T* to = static_cast<T*>(y);
  const T* from = static_cast<const T*>(x);
  if (y_stride == 1 && x_stride == 1)
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  else if (y_stride == 1 && x_stride == 0)
    std::fill_n(to, n, *from);
  else
    for (std::int64_t i = 0; i < n; ++i) to[i * y_stride] = from[i * x_stride];
}
void copy_run(int bytes, void* y, std::int64_t y_stride, const void* x, std::int64_t x_stride,
              std::int64_t n) {
  switch (bytes) {
    case 1:
      return copy_run<std::uint8_t>(y, y_stride, x, x_stride, n);
    case 2:
      return copy_run<std::uint16_t>(y, y_stride, x, x_stride, n);
    case 4:
      return copy_run<std::uint32_t>(y, y_stride, x, x_stride, n);
    default:
      return copy_run<std::uint64_t>(y, y_stride, x, x_stride, n);
  }
}

struct Dim {
  std::int64_t size, x, y;  // strides
};

// The dims with more than one element, by falling stride of y, neighbours merged.
struct Dims {
  std::array<Dim, kMaxDims> dims;
  int count = 0;
  std::int64_t elements = 1;
};

Dims sorted_dims(const StridedCopy& c) {
  Dims d;
  for (int i = 0; i < c.dims.ndim(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    d.elements *= c.dims[i];
    if (c.dims[i] != 1)
      d.dims[static_cast<std::size_t>(d.count++)] = {c.dims[i], c.x_strides[k], c.y_strides[k]};
  }
  if (d.count == 0) d.dims[static_cast<std::size_t>(d.count++)] = {1, 1, 1};
  std::stable_sort(d.dims.begin(), d.dims.begin() + d.count,
                   [](const Dim& a, const Dim& b) { return a.y > b.y; });
  int out = 0;
  for (int i = 1; i < d.count; ++i) {
    Dim& a = d.dims[static_cast<std::size_t>(out)];
    const Dim& b = d.dims[static_cast<std::size_t>(i)];
    if (a.x == b.x * b.size && a.y == b.y * b.size)
      a = {a.size * b.size, b.x, b.y};
    else
      d.dims[static_cast<std::size_t>(++out)] = b;
  }
  d.count = out + 1;
  return d;
}

struct Offsets {
  std::int64_t x = 0, y = 0;
};
Offsets offsets_of(const Dim* dims, int count, std::int64_t index) {
  Offsets o;
  for (int d = count - 1; d >= 0; --d) {
    o.x += index % dims[d].size * dims[d].x;
    o.y += index % dims[d].size * dims[d].y;
    index /= dims[d].size;
  }
  return o;
}

}  // namespace

void strided_copy(const StridedCopy& c) {
  const Dims d = sorted_dims(c);
  if (d.elements == 0) return;
  const int bytes = c.element_bytes;
  const Dim inner = d.dims[static_cast<std::size_t>(d.count - 1)];
  // The contiguous dim of x if y's is another one: both are walked in blocks.
  int other = -1;
  if (inner.y == 1 && inner.x != 1)
    for (int i = 0; i < d.count - 1; ++i)
      if (d.dims[static_cast<std::size_t>(i)].x == 1) other = i;
  if (other < 0) {
    const std::int64_t rows = d.elements / inner.size;
    // Divides one long run, too.
    const std::int64_t piece = std::min<std::int64_t>(inner.size, 65536);
    const std::int64_t pieces = divide_up(inner.size, piece);
    parallel_ranges(rows * pieces, std::max<std::int64_t>(1, 16384 / piece),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        Offsets o = offsets_of(d.dims.data(), d.count - 1, i / pieces);
                        const std::int64_t first = i % pieces * piece;
                        o.x += first * inner.x;
                        o.y += first * inner.y;
                        copy_run(bytes, at(c.y, o.y * bytes), inner.y, at(c.x, o.x * bytes),
                                 inner.x, std::min(piece, inner.size - first));
                      }
                    });
    return;
  }
  const Dim across = d.dims[static_cast<std::size_t>(other)];
  std::array<Dim, kMaxDims> outer;
  int num_outer = 0;
  for (int i = 0; i < d.count - 1; ++i)
    if (i != other)
      outer[static_cast<std::size_t>(num_outer++)] = d.dims[static_cast<std::size_t>(i)];
  const std::int64_t bands = divide_up(across.size, kBlock);
  const std::int64_t planes = d.elements / (inner.size * across.size);
  parallel_ranges(planes * bands, std::max<std::int64_t>(1, 16384 / (inner.size * kBlock)),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const Offsets o = offsets_of(outer.data(), num_outer, i / bands);
                      const std::int64_t a = i % bands * kBlock;
                      const std::int64_t width = std::min(kBlock, across.size - a);
                      for (std::int64_t r = 0; r < inner.size; r += kBlock)
                        transpose_block(bytes, at(c.y, (o.y + a * across.y + r) * bytes), across.y,
                                        at(c.x, (o.x + r * inner.x + a) * bytes), inner.x,
                                        std::min(kBlock, inner.size - r), width);
                    }
                  });
}

}  // namespace lamina::cpu
