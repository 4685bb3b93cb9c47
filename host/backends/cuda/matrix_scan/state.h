// The state of a head of linear attention in the registers of threads, for kernels.
#pragma once

#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/matrix_scan/recurrence_params.h"

namespace lamina::cuda {
namespace {

// One thread's part of the state of a head.
using StatePart = float[kStateRows][kStateColumns];

struct StatePlace {
  std::int64_t b, n;       // row and head
  std::int64_t of_states;  // number of the head among those with saved states
  std::int64_t first;      // column of the thread's first column
  int column;              // the same in the block
  int lane;                // among the lanes of these columns
};

LAMINA_GPU_FUNCTION StatePlace state_place(const Recurrence& p) {
  const std::int64_t slice = gpu::block_index() % p.blocks_per_head;
  const std::int64_t head = gpu::block_index() / p.blocks_per_head;
  StatePlace at;
  at.of_states = head;
  at.b = (p.first_head + head) / p.heads;
  at.n = (p.first_head + head) % p.heads;
  at.lane = gpu::thread_index() % p.lanes;
  at.column = gpu::thread_index() / p.lanes * kStateColumns;
  at.first = slice * p.columns_per_block + at.column;
  return at;
}

// Row of the state that a register has: lanes have neighbouring vectors of four rows, so that they
// read shared memory without conflicts.
LAMINA_GPU_FUNCTION int state_row(const Recurrence& p, int lane, int r) {
  return (r / 4 * p.lanes + lane) * 4 + r % 4;
}

LAMINA_GPU_FUNCTION void clear_state(StatePart& s) {
  LAMINA_GPU_UNROLL
  for (int r = 0; r < kStateRows; ++r) {
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kStateColumns; ++c) s[r][c] = 0;
  }
}

// Loads the rows of a thread from a row of keys.
LAMINA_GPU_FUNCTION void load_rows(const Recurrence& p, gpu::Shared<const float> from, int lane,
                                   float (&to)[kStateRows]) {
  LAMINA_GPU_UNROLL
  for (int part = 0; part < kStateRows / 4; ++part) {
    const auto v = gpu::load_vector<4>(from, (part * p.lanes + lane) * 4);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) to[part * 4 + i] = v.values[i];
  }
}
LAMINA_GPU_FUNCTION void load_columns(gpu::Shared<const float> from, float (&to)[kStateColumns]) {
  const auto v = gpu::load_vector<kStateColumns>(from, 0);
  LAMINA_GPU_UNROLL
  for (int c = 0; c < kStateColumns; ++c) to[c] = v.values[c];
}

// Adds the values of the lanes that share columns; each of them gets the sums.
LAMINA_GPU_FUNCTION void add_lanes(const Recurrence& p, float (&x)[kStateColumns]) {
  for (int mask = p.lanes / 2; mask > 0; mask /= 2) {
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kStateColumns; ++c) x[c] += gpu::shuffle_xor(x[c], mask);
  }
}

// Computes columns of key^T state over all rows.
LAMINA_GPU_FUNCTION void by_key(const Recurrence& p, const float (&key)[kStateRows],
                                const StatePart& s, float (&to)[kStateColumns]) {
  LAMINA_GPU_UNROLL
  for (int c = 0; c < kStateColumns; ++c) to[c] = 0;
  LAMINA_GPU_UNROLL
  for (int r = 0; r < kStateRows; ++r) {
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kStateColumns; ++c) to[c] = gpu::fma(key[r], s[r][c], to[c]);
  }
  add_lanes(p, to);
}
// Adds key outer value to the state.
LAMINA_GPU_FUNCTION void add_outer(const float (&key)[kStateRows],
                                   const float (&value)[kStateColumns], StatePart& s) {
  LAMINA_GPU_UNROLL
  for (int r = 0; r < kStateRows; ++r) {
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kStateColumns; ++c) s[r][c] = gpu::fma(key[r], value[c], s[r][c]);
  }
}
LAMINA_GPU_FUNCTION void scale_rows(const float (&factor)[kStateRows], StatePart& s) {
  LAMINA_GPU_UNROLL
  for (int r = 0; r < kStateRows; ++r) {
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kStateColumns; ++c) s[r][c] *= factor[r];
  }
}

// Columns of a state in memory as [value_width, lanes * kStateRows].
LAMINA_GPU_FUNCTION void save_state(const Recurrence& p, gpu::Address to, const StatePlace& at,
                                    std::int64_t chunk, const StatePart& s) {
  const gpu::Global<float> columns(to);
  const std::int64_t rows = p.lanes * kStateRows;
  LAMINA_GPU_UNROLL
  for (int c = 0; c < kStateColumns; ++c) {
    if (at.first + c >= p.value_width) continue;
    const std::int64_t first =
        ((at.of_states * p.num_chunks + chunk) * p.value_width + at.first + c) * rows;
    LAMINA_GPU_UNROLL
    for (int part = 0; part < kStateRows / 4; ++part) {
      gpu::Vector<float, 4> v;
      LAMINA_GPU_UNROLL
      for (int i = 0; i < 4; ++i) v.values[i] = s[part * 4 + i][c];
      gpu::store_vector(columns, first + (part * p.lanes + at.lane) * 4, v);
    }
  }
}

// The decode state, [key_width, value_width].
LAMINA_GPU_FUNCTION void load_state(const Recurrence& p, const StatePlace& at, StatePart& s) {
  const gpu::Global<const float> from(p.state);
  LAMINA_GPU_UNROLL
  for (int r = 0; r < kStateRows; ++r) {
    const std::int64_t row = state_row(p, at.lane, r);
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kStateColumns; ++c)
      s[r][c] =
          row < p.key_width && at.first + c < p.value_width
              ? from[((at.b * p.heads + at.n) * p.key_width + row) * p.value_width + at.first + c]
              : 0.0f;
  }
}
LAMINA_GPU_FUNCTION void store_state(const Recurrence& p, const StatePlace& at,
                                     const StatePart& s) {
  const gpu::Global<float> to(p.new_state);
  LAMINA_GPU_UNROLL
  for (int r = 0; r < kStateRows; ++r) {
    const std::int64_t row = state_row(p, at.lane, r);
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kStateColumns; ++c)
      if (row < p.key_width && at.first + c < p.value_width)
        to[((at.b * p.heads + at.n) * p.key_width + row) * p.value_width + at.first + c] = s[r][c];
  }
}

}  // namespace
}  // namespace lamina::cuda
