// Linear attention with a decaying matrix as state: in chunks of 16 tokens for training and
// prefill, token by token for decoding, and backward. ops/matrix_scan.cc defines it.
//
//   matrix_scan_forward({.batch = 1, .tokens = 512, .heads = 32, .key_width = 64, .value_width =
//   64,
//                        .q = {{q, DType::bf16}, 32}, ...});
//
// In a chunk, with z a column of k or a and x a row of q or b, the part of the state that token j
// left acts on token t through
//   M[t, j] = sum over h of x_t[h] z_j[h] (e_(j+1) ... e_t)[h],  e = exp(g),
// without the last factor where x reads the state before its decay. The terms of rank one, w_t =
// R_t^T b_t, then solve a triangle (the WY form), and with S the state before the chunk
//   w = b' S + M_bk v + M_ba w,  y = q' S + M_qk v + M_qa w,  S' = (e_1 ... e_C) S + k'^T v + a'^T
//   w
// where primes mean that rows are multiplied by the decays between them and the edge of the chunk.
// All decays are running products of e: nothing is divided and no logarithms are subtracted, so any
// g <= 0 of any channel is safe, and a chunk is as short as products with S stay efficient, since
// its M costs H multiplications for each pair of tokens. Yang et al. 2024, "Gated Linear Attention"
// and "Parallelizing Linear Transformers with the Delta Rule".
//
// Operands and their gradients are f32 or bf16, arithmetic and the state are f32. Nothing is
// allocated. Results do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/threads/numbers.h"

namespace lamina::cpu {

// Keys [batch, tokens, heads, key_width]; each of their heads may serve several heads.
struct KeyNumbers : ConstNumbers {
  std::int64_t heads = 1;
};

struct MatrixScan {
  std::int64_t batch, tokens, heads, key_width, value_width;
  float scale = 1;
  bool decay_first = true, read_before = false;
  bool per_channel = false;  // g is [batch, tokens, heads, key_width], else without the last dim
  KeyNumbers q, k, a, b;     // a and b: data null = none
  ConstNumbers v, g;         // v [batch, tokens, heads, value_width]
  const std::int32_t* segments =
      nullptr;            // [batch, tokens], optional: a new segment resets the state
  bool rank_one = false;  // true if a and b are given
};

struct MatrixScanForward : MatrixScan {
  Numbers y;  // [batch, tokens, heads, value_width]
  // Decode state. If given, start and count are too.
  float* state = nullptr;               // [batch, heads, key_width, value_width], rewritten
  const std::int32_t* start = nullptr;  // [batch]: 0 = the state counts as zeros
  const std::int32_t* count = nullptr;  // [batch]: later tokens get zeros and change nothing
  float* workspace = nullptr;           // matrix_scan_forward_workspace_bytes
};
void matrix_scan_forward(const MatrixScanForward& p);

struct MatrixScanBackward : MatrixScan {
  ConstNumbers dy;
  Numbers dq, dk, dv, dg, da, db;  // dq, dk, da, db of `heads` heads
  float* workspace = nullptr;
};
void matrix_scan_backward(const MatrixScanBackward& p);

// Returns the bytes for the current number of threads. `with_state`: true if the run has a state.
// REQUIRES: runs have no larger pool.
std::size_t matrix_scan_forward_workspace_bytes(const MatrixScan& p, bool with_state);
std::size_t matrix_scan_backward_workspace_bytes(const MatrixScan& p);

// True if a forward pass of `tokens` tokens over decode state is computed token by token.
bool matrix_scan_is_recurrent(std::int64_t tokens);

// The rest is private to this folder.

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

// The functions of one instruction set.
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
