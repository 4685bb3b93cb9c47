// A libcuda.so.1 for tests of the program: FAKE_DRIVER is "old", "new", "empty" (without a
// GPU), "mixed" (of another version than the kernel's), "hung" (a call never returns) or "good".
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "backends/cuda/driver/api.h"

namespace lamina::cuda {
namespace {

std::string_view kind() {
  const char* text = std::getenv("FAKE_DRIVER");
  return text ? text : "good";
}

}  // namespace

// all_functions.cc has weak definitions of all other functions.
#define LAMINA_EXPORT extern "C" __attribute__((visibility("default")))

LAMINA_EXPORT DriverResult cuInit(unsigned) {
  while (kind() == "hung") pause();
  return kind() == "empty"   ? DriverResult::no_device
         : kind() == "mixed" ? DriverResult::system_driver_mismatch
                             : DriverResult::success;
}
LAMINA_EXPORT DriverResult cuDriverGetVersion(int* version) {
  *version = kind() == "old" ? 11040 : kind() == "new" ? 99020 : 13000;
  return DriverResult::success;
}
LAMINA_EXPORT DriverResult cuGetErrorString(DriverResult error, const char** text) {
  *text = error == DriverResult::no_device ? "no CUDA-capable device is detected" : "other error";
  return DriverResult::success;
}
LAMINA_EXPORT DriverResult cuGetErrorName(DriverResult error, const char** text) {
  *text = error == DriverResult::no_device ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return DriverResult::success;
}

}  // namespace lamina::cuda
