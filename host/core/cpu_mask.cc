#include "core/cpu_mask.h"

#include <optional>

namespace lamina {

const CpuMask* allowed_cpus() {
  static const std::optional<CpuMask> allowed = [] {
    CpuMask mask;
    return mask.read() ? std::optional(mask) : std::nullopt;
  }();
  return allowed ? &*allowed : nullptr;
}

void unpin_this_thread() {
  if (const CpuMask* allowed = allowed_cpus()) allowed->apply();
}

}  // namespace lamina
