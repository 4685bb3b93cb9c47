// The table of matrix scan functions of one instruction set, and the layout of their scratch
// memory. Private to matrix_scan*.cc.
#pragma once

#include "backends/cpu/scan/matrix_scan.h"

namespace lamina::cpu {

inline constexpr std::int64_t kMatrixChunk = 16;

// Sizes in floats of a task's data: one head of one row.
struct MatrixScanSizes {
  std::int64_t rows;          // of q and b together, and of k and a: 16 or 32
  std::int64_t keys, values;  // widths padded to whole vectors
  std::int64_t state;         // [keys, values]
  std::int64_t num_saved;  // states saved for the backward pass, of chunks that continue a document

  explicit MatrixScanSizes(const MatrixScan& p)
      : rows(kMatrixChunk * (p.rank_one ? 2 : 1)),
        keys((p.key_width + 15) / 16 * 16),
        values((p.value_width + 15) / 16 * 16),
        state(keys * values),
        num_saved(p.tokens / kMatrixChunk) {}

  // x, z, both decayed; e; its product; M; u.
  std::int64_t of_chunk() const {
    return 4 * rows * keys + (kMatrixChunk + 1) * keys + rows * rows + rows * values;
  }
  std::int64_t forward() const { return of_chunk() + rows * values + state; }
  std::int64_t backward() const {
    return of_chunk() + (2 + num_saved) * state + 5 * rows * values + rows * rows +
           4 * rows * keys + (kMatrixChunk + 1) * keys;
  }
  // One token: q, k, a, b, e, and two rows of values.
  std::int64_t recurrent() const { return 5 * keys + 2 * values; }
};

struct MatrixScanFunctions {
  // Computes all tokens of head n of row b, chunk by chunk.
  void (*forward)(const MatrixScanForward& p, std::int64_t b, std::int64_t n, float* scratch);
  // Computes the same tokens one by one, with the state in place.
  void (*recurrent)(const MatrixScanForward& p, std::int64_t b, std::int64_t n, float* scratch);
  // Computes their gradients.
  void (*backward)(const MatrixScanBackward& p, std::int64_t b, std::int64_t n, float* scratch);

  static const MatrixScanFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
