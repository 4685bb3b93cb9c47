// How kernels that work on rows or ranges access memory: by vectors of 16 bytes, or element by
// element where a size or an address is no multiple of a vector.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "backends/cuda/launch.h"
#include "core/round_up.h"
#include "runtime/kernel_checks.h"

namespace lamina::cuda {

inline constexpr int kVectorBytes = 16;
inline int vector_elements(DType dtype) { return kVectorBytes / size_bytes(dtype); }

// True if vectors can begin at all of these addresses; null is no address. Views begin at any
// element, so a kernel asks this in each run.
inline bool begin_vectors(std::initializer_list<gpu::Address> addresses,
                          int vector_bytes = kVectorBytes) {
  return std::ranges::all_of(addresses, [=](gpu::Address a) {
    return a.value % static_cast<std::uint64_t>(vector_bytes) == 0;
  });
}
inline bool begin_vectors(std::initializer_list<const void*> addresses) {
  return std::ranges::all_of(addresses, [](const void* a) { return begin_vectors({address(a)}); });
}

// The two kernels of a `stem`: <stem>_vectors and <stem>_elements.
class AccessForms {
 public:
  AccessForms(Context& context, const std::string& stem)
      : vectors_(function(context, stem + "_vectors")),
        elements_(function(context, stem + "_elements")) {}
  Function get(bool by_vectors) const { return by_vectors ? vectors_ : elements_; }

 private:
  Function vectors_, elements_;
};

// The kernels of a `stem` whose threads take columns of rows: <stem>_<dtype>, and
// <stem>_<dtype>x<N> by vectors of N = 16 bytes, of f32 and bf16 and where the width has whole
// vectors.
class ColumnForms {
 public:
  ColumnForms(Context& context, std::string_view stem, DType dtype, std::int64_t width)
      : elements_(function(context, stem, dtype)) {
    const int most = vector_elements(dtype);
    if (!is_fast_dtype(dtype) || width % most != 0) return;
    columns_ = most;
    vectors_ = function(context, fmt::format("{}_{}x{}", stem, name(dtype), most));
  }
  // Returns the columns of a thread for rows that begin at these addresses.
  int columns(std::initializer_list<gpu::Address> rows) const {
    return begin_vectors(rows) ? columns_ : 1;
  }
  Function get(int columns) const { return columns == 1 ? elements_ : vectors_; }

 private:
  int columns_ = 1;
  Function vectors_ = nullptr, elements_;
};

// Groups of threads for rows (gpu/row_groups.h).
struct RowShape {
  int threads_per_row;  // a power of two
  int threads;          // of a block
  std::int64_t blocks;
};

// The shape for rows of `units` vectors or elements: a thread gets `units_per_thread` of them, more
// if a row would need more than `max_threads`.
inline RowShape row_shape(std::int64_t num_rows, std::int64_t units, int units_per_thread,
                          int max_threads, std::int64_t max_blocks = kMostBlocks) {
  const std::int64_t wanted =
      std::max<std::int64_t>(1, divide_up(units, std::int64_t{units_per_thread}));
  const int per_row = static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(wanted, max_threads))));
  const int threads = std::max(per_row, std::min(128, max_threads));
  return {per_row, threads,
          std::min(divide_up(num_rows, std::int64_t{threads / per_row}), max_blocks)};
}

}  // namespace lamina::cuda
