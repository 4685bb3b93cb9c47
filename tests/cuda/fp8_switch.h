// Sets LAMINA_GPU_FP8 while it exists.
#pragma once

#include <cstdlib>

namespace lamina::testing {

class Fp8Switch {
 public:
  explicit Fp8Switch(const char* value) { setenv("LAMINA_GPU_FP8", value, 1); }
  ~Fp8Switch() { unsetenv("LAMINA_GPU_FP8"); }
  Fp8Switch(const Fp8Switch&) = delete;
  Fp8Switch& operator=(const Fp8Switch&) = delete;
};

}  // namespace lamina::testing
