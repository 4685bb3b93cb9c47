// Adds the emulated device to lamina; the program is named lamina_emulated.
#include "emulated/device.h"

namespace lamina::testing {
namespace {

[[maybe_unused]] const bool is_known = [] {
  static const EmulatedDevice device;
  device::add(device);
  return true;
}();

}  // namespace
}  // namespace lamina::testing
