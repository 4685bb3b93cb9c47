// Products of keys and rows in the open cells of a tile. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/cells.h"
#include "backends/cpu/attention/products.h"

namespace lamina::cpu {
namespace {

// Sets out[key, row] of a run of cells to factor * keys[key] . columns[row], with keys [64, words],
// columns [words, 64] and out [64, 64].
template <class V, bool kPairs>
void multiply_cells(const CellRun& run, std::int64_t words, const Word* keys, const Word* columns,
                    float factor, float* out) {
  run_product<V, kPairs, false>({.rows = (run.end - run.begin) * kCell,
                                 .columns = (run.last - run.first) * kCell,
                                 .depth = words,
                                 .a = keys + run.begin * kCell * words,
                                 .a_stride = words,
                                 .b = columns + run.first * kCell,
                                 .b_stride = kTile,
                                 .c = out + run.begin * kCell * kTile + run.first * kCell,
                                 .c_stride = kTile,
                                 .store = Store::scaled,
                                 .factor = factor});
}

}  // namespace
}  // namespace lamina::cpu
