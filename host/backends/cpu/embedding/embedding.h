// Gradients of tables: adds up rows by id, to a whole table or to a list of rows, and merges two
// lists.
//
// A list is ids i32[slots], rising, without duplicates, and their rows [slots, width]. Unused slots
// come last: they have the id num_rows, which is outside of the table, and zeros.
//
// Nothing is allocated, and no result depends on the number of threads. [any thread]
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

// A row to be sorted among the rows of the same id.
struct RowOfId {
  std::int64_t id;
  std::int64_t row;
};

// Sorts by id and keeps the order of equal ids. Returns the sorted entries, which are in one of the
// two buffers.
const RowOfId* sort_by_id(RowOfId* entries, RowOfId* scratch, std::int64_t n);

using AddRow = void (*)(void* sum, const void* row, std::int64_t width);

struct RowSums {
  const std::int32_t* ids;  // [num_ids]; ids outside [0, num_rows) are ignored
  std::int64_t num_ids;
  std::int64_t num_rows;
  std::int64_t width;
  const void* dy;  // [num_ids, width]
  DType dy_dtype;
  std::int64_t slots;     // at least the number of different ids
  std::int32_t* sum_ids;  // [slots]
  void* sums;             // [slots, width] of sum_dtype(dy_dtype), each in order of the ids
  void* workspace;        // row_sums_workspace_bytes(num_ids)
  AddRow add = nullptr;   // null: the fastest, for dy in f32 or bf16
};
void sum_rows_by_id(const RowSums& p);
std::size_t row_sums_workspace_bytes(std::int64_t num_ids);

struct RowLists {
  std::int32_t* ids;  // [slots], changed in place
  void* sums;         // [slots, width], changed in place
  std::int64_t slots;
  const std::int32_t* more_ids;  // [more_slots]
  const void* more;              // [more_slots, width]
  std::int64_t more_slots;
  std::int64_t num_rows;
  std::int64_t width;
  DType dtype;      // f32 or f64
  void* workspace;  // row_lists_workspace_bytes(slots, more_slots)
};
// REQUIRES: the first list has enough slots for all ids of both.
void add_row_lists(const RowLists& p);
std::size_t row_lists_workspace_bytes(std::int64_t slots, std::int64_t more_slots);

// Returns the index of the first id outside [0, num_rows), or -1.
std::int64_t first_bad_id(const std::int32_t* ids, std::int64_t num_ids, std::int64_t num_rows);

struct EmbeddingScatterAdd {
  const std::int32_t* ids;  // [num_ids]
  std::int64_t num_ids;
  std::int64_t width;
  const void* dy;  // [num_ids, width], f32 or bf16
  DType dy_dtype;
  float* dtable;    // [rows, width]; dtable[ids[k]] += dy[k], in order of k
  void* workspace;  // embedding_workspace_bytes(num_ids)
};
void embedding_scatter_add(const EmbeddingScatterAdd& p);
std::size_t embedding_workspace_bytes(std::int64_t num_ids);

// The functions of one instruction set. Private to this folder.
using EmbeddingAdd = void (*)(float* to, const void* from, std::int64_t n);
struct EmbeddingFunctions {
  EmbeddingAdd add[2];  // [from is bf16]

  static const EmbeddingFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
