#include "cli/compute.h"

#include "backends/cpu/device/threads.h"

namespace lamina::cli {

void apply_threads(const Globals& globals) { cpu::set_threads(globals.threads.value_or(0), true); }

}  // namespace lamina::cli
