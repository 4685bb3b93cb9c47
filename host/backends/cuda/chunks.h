// The host's side of tables of tensors in chunks (gpu/chunks.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "backends/cuda/gpu/tensor_table.h"
#include "backends/cuda/launch.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cuda {

// Appends the chunks of the next tensor. REQUIRES: there is room for it.
template <typename Table>
void add_chunks(Table& table, std::int64_t chunks) {
  LAMINA_ASSERT(table.num_tensors < std::ssize(table.first_chunks));
  LAMINA_ASSERT(chunks <= INT32_MAX - table.num_chunks);
  table.first_chunks[table.num_tensors++] = table.num_chunks;
  table.num_chunks += static_cast<std::int32_t>(chunks);
}

// Returns the number of blocks for the chunks of a table, and sets the chunks of each.
template <typename Table>
std::int64_t share_chunks(Table& table) {
  const std::int64_t chunks = table.num_chunks;
  table.chunks_per_block =
      static_cast<std::int32_t>(std::max<std::int64_t>(1, divide_up(chunks, kMostBlocks)));
  return divide_up(chunks, std::int64_t{table.chunks_per_block});
}

// Adds a tensor to the table of a launch. REQUIRES: there is room.
template <typename Tensor>
void add_tensor(TensorTable<Tensor>& table, const Tensor& tensor, std::int64_t chunks) {
  add_chunks(table, chunks);
  table.tensors[table.num_tensors - 1] = tensor;
}

// Launches a kernel over many tensors, as many at a time as its parameters have room for.
template <typename Params>
class TableLaunches {
 public:
  // `params` has an empty table.
  TableLaunches(const KernelArgs& args, Function function, int threads, const Params& params = {})
      : args_(args), function_(function), threads_(threads), params_(params) {}

  void add(const auto& tensor, std::int64_t chunks) {
    if (chunks == 0) return;
    if (params_.table.num_tensors == std::ssize(params_.table.tensors)) run();
    add_tensor(params_.table, tensor, chunks);
  }
  void run() {
    const std::int64_t blocks = share_chunks(params_.table);
    launch(args_, function_, {.blocks = blocks, .threads = threads_}, params_);
    params_.table.num_tensors = params_.table.num_chunks = 0;
  }

 private:
  const KernelArgs& args_;
  Function function_;
  int threads_;
  Params params_;
};

// Returns the detail() of a kernel of several tensors: "of 60 tensors, 40 per launch", or "" for
// a single one.
inline std::string group_text(std::size_t tensors, std::size_t most, std::string_view noun) {
  if (tensors == 1) return {};
  return fmt::format("of {} {}{}", tensors, noun,
                     tensors > most ? fmt::format(", {} per launch", most) : "");
}

}  // namespace lamina::cuda
