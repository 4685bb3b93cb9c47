// The CPU as a backend: memory of this machine, queues that run work at once, and the kernels in
// the folders beside this file.
#pragma once

#include "runtime/backend.h"

namespace lamina::cpu {

// Returns the one CPU backend of the process. [any thread]
const Backend& cpu_backend();

}  // namespace lamina::cpu
