// The emulated GPU, without graphs.
#pragma once

#include <cstdlib>
#include <memory>

#include "cuda/gpu.h"

namespace lamina::testing {

inline const Backend& plain_gpu() {
  static const std::unique_ptr<Backend> backend = [] {
    setenv("LAMINA_GPU_GRAPHS", "0", 1);
    auto out = cuda::emulation::open_emulated_gpu();
    unsetenv("LAMINA_GPU_GRAPHS");
    return out;
  }();
  return *backend;
}

}  // namespace lamina::testing
