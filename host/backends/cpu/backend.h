// The CPU as a backend: memory of this machine and the kernels of backends/cpu/ops.
#pragma once

#include "runtime/backend.h"

namespace lamina::cpu {

// The one CPU backend of the process. [any thread]
const Backend& cpu_backend();

}  // namespace lamina::cpu
