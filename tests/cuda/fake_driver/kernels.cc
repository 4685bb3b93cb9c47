// A lamina_cuda.so for tests of the program, without kernels.
#include "backends/cuda/kernel_library.h"

extern "C" __attribute__((visibility("default")))
const lamina::cuda::KernelLibrary lamina_cuda_kernels = {FAKE_VERSION, FAKE_DRIVER_VERSION, 0,
                                                         nullptr};
