// Adds the emulated GPU to lamina as --device cuda; the program is named lamina_emulated.
#include "backends/cuda/emulation/driver.h"
#include "device/cuda.h"

namespace lamina::testing {
namespace {

[[maybe_unused]] const bool is_known = [] {
  static const device::CudaDevice device("cuda", cuda::emulation::open_emulated_gpu());
  device::add(device);
  return true;
}();

}  // namespace
}  // namespace lamina::testing
