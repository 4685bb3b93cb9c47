// The GPU of tests: the emulated one, or GPU 0 of this machine with LAMINA_TEST_GPU=1, which
// scripts/gpu_check sets. Tests of faults and of the emulation itself use the emulated one only.
#pragma once

#include <cstdlib>
#include <string_view>

#include "backends/cuda/backend.h"
#include "backends/cuda/driver/open.h"
#include "backends/cuda/emulation/driver.h"
#include "backends/cuda/kernel_library.h"

namespace lamina::testing {

inline const Backend& emulated_gpu() { return cuda::emulation::emulated_gpu(); }

inline const Backend& test_gpu() {
  static const Backend& gpu = []() -> const Backend& {
    const char* wanted = std::getenv("LAMINA_TEST_GPU");
    if (!wanted || std::string_view(wanted) != "1") return emulated_gpu();
    const cuda::DriverApi& driver = cuda::open_driver();
    return *cuda::open_backend(driver, cuda::open_kernel_library(driver), 0).release();
  }();
  return gpu;
}

// Makes the emulated GPU usable again after work that fails.
struct ResetAfter {
  ~ResetAfter() { cuda::emulation::reset_gpu(); }
};

}  // namespace lamina::testing
