// Rows of a table by id, and the gradient: rows added up by id.
//
//   embedding_gather({.ids = ids, .num_ids = tokens, .width = 1024, .table = table,
//                     .table_dtype = DType::bf16, .y = x, .y_dtype = DType::bf16});
//
// Nothing is allocated, and no result depends on the number of threads. [any thread]
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

// The index of the first id outside [0, num_rows), or -1. Ids come from users: ask before a gather.
std::int64_t first_bad_id(const void* ids, DType id_dtype, std::int64_t num_ids,
                          std::int64_t num_rows);

struct EmbeddingGather {
  const void* ids;              // [num_ids], each below the rows of the table
  DType id_dtype = DType::i32;  // i32 or i64
  std::int64_t num_ids;
  std::int64_t width;
  const void* table;  // [rows, width], f32 or bf16
  DType table_dtype;
  void* y;  // [num_ids, width] = scale * table[ids], f32 or bf16
  DType y_dtype;
  float scale = 1.0f;
};
void embedding_gather(const EmbeddingGather& p);

struct EmbeddingScatterAdd {
  const void* ids;
  DType id_dtype = DType::i32;
  std::int64_t num_ids;
  std::int64_t width;
  const void* dy;  // [num_ids, width], f32 or bf16
  DType dy_dtype;
  float* dtable;  // [rows, width]; dtable[ids[k]] += scale * dy[k], in order of k
  float scale = 1.0f;
  void* workspace;  // embedding_workspace_bytes(num_ids)
};
void embedding_scatter_add(const EmbeddingScatterAdd& p);
std::size_t embedding_workspace_bytes(std::int64_t num_ids);

}  // namespace lamina::cpu
