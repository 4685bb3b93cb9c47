// Small safetensors files of numbers.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "io/safetensors_writer.h"

namespace lamina::testing {

struct FileTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

inline void write_tensors(const std::string& path, const std::vector<FileTensor>& tensors) {
  std::vector<io::TensorSpec> specs;
  for (const FileTensor& t : tensors) specs.push_back({t.name, DType::f32, t.shape});
  io::write_safetensors(path, specs, {}, [&](const io::TensorSpec& spec) {
    for (const FileTensor& t : tensors)
      if (t.name == spec.name) return std::as_bytes(std::span(t.values));
    return std::span<const std::byte>();
  });
}

}  // namespace lamina::testing
