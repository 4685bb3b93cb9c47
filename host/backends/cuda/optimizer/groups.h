// The host's side of kernels over tables of tensors (params.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "backends/cuda/launch.h"
#include "backends/cuda/optimizer/params.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cuda {

// Adds a tensor to the table of a launch. REQUIRES: there is room.
template <typename Tensor>
void add_tensor(TensorTable<Tensor>& table, const Tensor& tensor, std::int64_t chunks) {
  LAMINA_ASSERT(table.num_tensors < TensorTable<Tensor>::kMost);
  LAMINA_ASSERT(chunks <= INT32_MAX - table.num_chunks);
  table.first_chunks[table.num_tensors] = table.num_chunks;
  table.tensors[table.num_tensors++] = tensor;
  table.num_chunks += static_cast<std::int32_t>(chunks);
}

// Returns the number of blocks for the chunks of a table, and sets the chunks of each.
template <typename Tensor>
std::int64_t share_chunks(TensorTable<Tensor>& table) {
  const std::int64_t chunks = table.num_chunks;
  table.chunks_per_block =
      static_cast<std::int32_t>(std::max<std::int64_t>(1, divide_up(chunks, kMostBlocks)));
  return divide_up(chunks, std::int64_t{table.chunks_per_block});
}

// Returns the detail() of a kernel of several tensors: "of 60 tensors, 40 per launch", or "" for
// a single one.
template <typename Tensor>
std::string group_text(std::size_t tensors, std::string_view noun) {
  constexpr std::size_t kMost = TensorTable<Tensor>::kMost;
  if (tensors == 1) return {};
  return fmt::format("of {} {}{}", tensors, noun,
                     tensors > kMost ? fmt::format(", {} per launch", kMost) : "");
}

}  // namespace lamina::cuda
