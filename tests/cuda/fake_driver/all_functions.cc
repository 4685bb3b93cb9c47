// Every function of the driver in use; each returns an error.
#include "backends/cuda/driver/api.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace lamina::cuda {

#define LAMINA_CUDA_DRIVER(field, symbol, parameters)                                      \
  extern "C" __attribute__((visibility("default"), weak)) DriverResult symbol parameters { \
    return DriverResult::not_found;                                                        \
  }
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER

}  // namespace lamina::cuda
