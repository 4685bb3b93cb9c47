// Gives lamina the emulated GPUs as --device cuda; the program is named lamina_emulated.
#include "backends/cuda/emulation/driver.h"
#include "backends/cuda/emulation/nccl.h"
#include "device/cuda.h"

namespace lamina::testing {
namespace {

[[maybe_unused]] const bool is_known = [] {
  device::open_gpus_by([](int ordinal) -> std::unique_ptr<device::Device> {
    return std::make_unique<device::CudaDevice>(
        device::gpu_name(ordinal), cuda::emulation::open_emulated_gpu(ordinal),
        device::GpuConnection{.open_nccl = cuda::emulation::nccl_api});
  });
  return true;
}();

}  // namespace
}  // namespace lamina::testing
