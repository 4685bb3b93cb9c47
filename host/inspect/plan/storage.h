// The storage of parameters: formats and bytes, by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decoder/model.h"

namespace lamina::inspect {

// Parameters with one name inside their layers, one shape and one storage.
struct ParameterStorage {
  std::string name;  // "layers.0-27.attention.wq.weight"
  Shape shape;
  std::int64_t count = 0;
  std::string storage;     // "INT4_32"; the element type for plain values
  std::int64_t bytes = 0;  // of all together
};

// Returns nothing if all parameters are plain in runs of `compute`.
std::vector<ParameterStorage> parameter_storage(const decoder::Model& model, DType compute);

}  // namespace lamina::inspect
