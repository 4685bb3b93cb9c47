// The emulated GPU of tests.
#pragma once

#include "backends/cuda/emulation/driver.h"

namespace lamina::testing {

inline const Backend& emulated_gpu() { return cuda::emulation::emulated_gpu(); }

// Makes the GPU usable again after work that fails.
struct ResetAfter {
  ~ResetAfter() { cuda::emulation::reset_gpu(); }
};

}  // namespace lamina::testing
