// Finds the ready-made kernel of a map.
#pragma once

#include <optional>
#include <string>

#include "backends/cuda/elementwise/params.h"
#include "runtime/map/program.h"

namespace lamina::cuda {

struct ReadyKernel {
  std::string name;  // of the kernel
  ReadyParams
      params;  // without addresses; operands are the inputs of the program, then its outputs
};

// Returns none if the program is not one of ready.h, with contiguous operands.
std::optional<ReadyKernel> find_ready(const MapProgram& program);

}  // namespace lamina::cuda
