// The GPUs that are open in this process. Choices of kernels depend on all of them, so that
// replicas on unequal cards run the same kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/blas/api.h"
#include "backends/cuda/dnn/open.h"

namespace lamina::cuda {

struct GpuInUse {
  std::string name;           // "NVIDIA H200"
  int capability;             // 90 for compute capability 9.0
  std::int64_t shared_bytes;  // that a block may have
  blas::OpenApi open_blas;
  dnn::OpenDnn open_dnn;
};

// [any thread]
std::vector<GpuInUse> gpus_in_use();

// Adds a GPU while it is open.
class GpuInUseEntry {
 public:
  explicit GpuInUseEntry(GpuInUse gpu);
  ~GpuInUseEntry();
  GpuInUseEntry(const GpuInUseEntry&) = delete;
  GpuInUseEntry& operator=(const GpuInUseEntry&) = delete;

 private:
  const GpuInUse gpu_;
};

}  // namespace lamina::cuda
