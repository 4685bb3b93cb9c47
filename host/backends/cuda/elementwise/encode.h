// Programs of maps as steps for the interpreter.
#pragma once

#include <optional>
#include <string>

#include "backends/cuda/elementwise/params.h"
#include "runtime/map/program.h"

namespace lamina::cuda {

struct EncodedMap {
  MapParams params;  // without addresses; operands are the inputs of the program, then its outputs
  int num_slots = 0;
  bool wide = false;  // has f64 or i64: registers of 64 bits
  // Why the program has no steps, if it has none: it is too large for the interpreter.
  std::string too_large = {};
};

// REQUIRES: the program is one of runtime/map/translate.h; its outputs are contiguous.
EncodedMap encode_map(const MapProgram& program);

}  // namespace lamina::cuda
