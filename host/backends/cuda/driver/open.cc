#include "backends/cuda/driver/open.h"

#include <cstdlib>

#include "backends/cuda/driver/shared_library.h"
#include "backends/cuda/driver/watched_calls.h"
#include "backends/cuda/timeout.h"
#include "core/error.h"
#include "core/printable.h"

namespace lamina::cuda {
namespace {

constexpr int kOldestVersion = 12000;

struct SystemDriver;

[[noreturn]] void throw_too_old(const std::string& what) {
  throw DeviceError(ExitCode::memory, {"cuda",
                                       what + "; expected a driver for CUDA 12.0 or newer",
                                       {"install a newer driver, or use --device cpu"}});
}

template <typename Function>
void find(const SharedLibrary& library, const char* symbol, Function& function) {
  if (!library.find(symbol, function))
    throw_too_old(fmt::format("the driver has no function {}", symbol));
}

DriverApi find_functions() {
  constexpr const char* kFiles[] = {"libcuda.so.1"};
  const SharedLibrary library(kFiles);
  if (!library)
    throw DeviceError(ExitCode::memory, {"cuda",
                                         "no NVIDIA driver",
                                         {std::string(library.why_not()),
                                          "install NVIDIA's driver, or use --device cpu"}});
  DriverApi api;
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) find(library, #symbol, api.field);
#define LAMINA_CUDA_DRIVER_OPTIONAL(field, symbol, parameters) library.find(#symbol, api.field);
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
  watch_calls(gpu_timeout());
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) \
  watch<SystemDriver, &DriverApi::field>(api.field, #symbol);
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
  const int version = version_of(api);
  if (version < kOldestVersion)
    throw_too_old(fmt::format("the driver is for CUDA {}.{}", version / 1000, version % 1000 / 10));
  const DriverResult started = api.init(0);
  if (started == DriverResult::no_device)
    throw DeviceError(ExitCode::memory,
                      {"cuda",
                       "the driver shows no GPU",
                       {"`nvidia-smi -L` lists the GPUs of this machine", visible_devices_note()}});
  check(api, started, "starting the driver");
  return api;
}

}  // namespace

std::string visible_devices_note() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) return "CUDA_VISIBLE_DEVICES limits the GPUs of a process";
  return fmt::format(
      "CUDA_VISIBLE_DEVICES='{}' limits the GPUs of this process: numbers, or UUIDs of `nvidia-smi "
      "-L`; a wrong one hides all after it",
      printable(visible));
}

const DriverApi& open_driver() {
  static const DriverApi api = find_functions();
  return api;
}

}  // namespace lamina::cuda
