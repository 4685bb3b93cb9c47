#include "backends/cuda/driver/open.h"

#include <dlfcn.h>

#include "core/error.h"

namespace lamina::cuda {
namespace {

constexpr int kOldestVersion = 12000;

[[noreturn]] void throw_too_old(const std::string& what) {
  throw DeviceError(ExitCode::memory, {"cuda",
                                       what + "; expected a driver for CUDA 12.0 or newer",
                                       {"install a newer driver, or use --device cpu"}});
}

template <typename Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (!function) throw_too_old(fmt::format("the driver has no function {}", symbol));
}

DriverApi find_functions() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw DeviceError(ExitCode::memory, {"cuda",
                                         fmt::format("cannot open the driver: {}", dlerror()),
                                         {"install NVIDIA's driver, or use --device cpu"}});
  DriverApi api;
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) find(library, #symbol, api.field);
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
  int version = 0;
  check(api, api.get_version(&version), "reading the driver's version");
  if (version < kOldestVersion)
    throw_too_old(fmt::format("the driver is for CUDA {}.{}", version / 1000, version % 1000 / 10));
  check(api, api.init(0), "starting the driver");
  return api;
}

}  // namespace

const DriverApi& open_driver() {
  static const DriverApi api = find_functions();
  return api;
}

}  // namespace lamina::cuda
