// The emulated device, used in place of a GPU.
#pragma once

#include "backends/emulated/backend.h"
#include "device/cpu.h"

namespace lamina::testing {

class EmulatedDevice final : public device::CpuDevice {
 public:
  std::string_view name() const override { return "cuda"; }
  const Backend& backend() const override { return emulated::emulated_backend(); }
};

}  // namespace lamina::testing
