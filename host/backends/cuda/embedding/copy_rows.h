// Copies of rows by number, for the ops that look rows up.
#pragma once

#include <cstdint>

#include "backends/cuda/embedding/params.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/units.h"

namespace lamina::cuda {

// A prepared copy: to[i] = from[ids[i] / divide]; zeros if that is outside of the rows.
class CopyRows {
 public:
  CopyRows(Context& context, std::int64_t row_bytes, std::int64_t num_rows, std::int64_t count,
           std::int64_t divide);
  void run(const KernelArgs& args, const void* from, const void* ids, void* to) const;

 private:
  std::int64_t row_bytes_;
  UnitKernels kernels_;
  CopyRowsParams params_;
};

}  // namespace lamina::cuda
