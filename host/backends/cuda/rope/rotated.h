// The rotation of a pair of channels, and the units of rotate_write. Device code.
#pragma once

#include "backends/cuda/gpu/divide.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/layout/cached_row.h"
#include "backends/cuda/rope/params.h"

namespace lamina::cuda {

// Wide numbers of the pairs: a rotates to a cos - b sin, b to b cos + a sin.
template <typename W>
struct Pair {
  W a, b;
};
template <typename W>
LAMINA_GPU_FUNCTION Pair<W> rotated(W a, W b, W cos, W sin) {
  return {gpu::fma(a, cos, -(b * sin)), gpu::fma(b, cos, a * sin)};
}

// A unit of one of the rows that rotate_write moves.
struct MovedUnit {
  int part;            // the index of its rows
  std::int64_t index;  // among the units of the token in these rows
  std::int64_t token, batch, slot;
};
LAMINA_GPU_FUNCTION MovedUnit moved_unit(const RotateWriteParams& p, std::int64_t at) {
  MovedUnit unit{};
  unit.token = gpu::divide(at, p.units, unit.index);
  while (unit.index >= p.rows[unit.part].units) unit.index -= p.rows[unit.part++].units;
  std::int64_t token_of_batch;
  unit.batch = gpu::divide(unit.token, p.tokens, token_of_batch);
  unit.slot = gpu::Global<const std::int32_t>(p.start)[unit.batch] + token_of_batch;
  return unit;
}
// Returns the token or row of a cache to write to; -1: none.
LAMINA_GPU_FUNCTION std::int64_t written_row(const MovedRows& rows, const MovedUnit& unit) {
  return rows.is_cached ? cached_row(rows.slots, unit.batch, unit.slot) : unit.token;
}

}  // namespace lamina::cuda
