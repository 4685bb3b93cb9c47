// Copies of rows by number, for the ops that look rows up.
#pragma once

#include <cstdint>

#include "backends/cuda/embedding/params.h"
#include "backends/cuda/launch.h"

namespace lamina::cuda {

// The memory accesses of one thread when rows of `row_bytes` bytes are copied.
struct CopyUnit {
  std::int64_t bytes;
  // Returns the kernel `name` for the unit: "embedding_copy_16".
  Function function(Context& context, std::string_view name) const;
};
// REQUIRES: the rows begin at multiples of 16 bytes if all have this size.
CopyUnit copy_unit(std::int64_t row_bytes);

// A prepared copy: to[i] = from[ids[i] / divide]; zeros if that is outside of the rows.
class CopyRows {
 public:
  CopyRows(Context& context, std::int64_t row_bytes, std::int64_t num_rows, std::int64_t count,
           std::int64_t divide);
  void run(const KernelArgs& args, const void* from, const void* ids, void* to) const;

 private:
  Function copy_;
  CopyRowsParams params_;
};

}  // namespace lamina::cuda
