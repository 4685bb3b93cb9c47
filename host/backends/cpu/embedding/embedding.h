// The gradient of a table: adds up rows by id.
//
// Nothing is allocated, and no result depends on the number of threads. [any thread]
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

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
