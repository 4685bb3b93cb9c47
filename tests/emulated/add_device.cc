// Makes lamina_emulated of lamina: the same program with one more device.
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
