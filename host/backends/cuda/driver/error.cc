// Errors of the driver, in words.
#include "core/error.h"
#include "backends/cuda/driver/api.h"

namespace lamina::cuda {

void throw_driver_error(const DriverApi& api, DriverResult error, const char* action) {
  const char *text = nullptr, *name = nullptr;
  if (api.get_error_string(error, &text) != DriverResult::success || !text) text = "unknown error";
  if (api.get_error_name(error, &name) != DriverResult::success || !name) name = "unknown";
  throw DeviceError(ExitCode::memory, {"cuda",
                                       fmt::format("{}: {} ({}, error {})", action, text, name,
                                                   static_cast<int>(error)),
                                       {}});
}

}  // namespace lamina::cuda
