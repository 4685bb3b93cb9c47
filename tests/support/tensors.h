// Tensors of tests, which are in host memory.
//
//   std::vector<std::vector<float>> values = ...;
//   program.bind_parameters(parameters_of(values));
//   floats(state.masters()[0])[3] = 1;
#pragma once

#include <vector>

#include "runtime/memory.h"

namespace lamina::testing {

// Returns the elements as f32, in whatever type they are stored; null for no tensor.
inline const float* floats(const ConstTensorRef& tensor) {
  if (!tensor) return nullptr;
  return reinterpret_cast<const float*>(host_view<std::byte>(tensor).data());
}
inline float* floats(const TensorRef& tensor) {
  if (!tensor) return nullptr;
  return reinterpret_cast<float*>(host_view<std::byte>(tensor).data());
}

template <typename T>
std::vector<ConstTensorRef> parameters_of(const std::vector<std::vector<T>>& values) {
  std::vector<ConstTensorRef> out;
  for (const std::vector<T>& v : values) out.push_back(host_tensor(std::span(v)));
  return out;
}
template <typename T>
std::vector<TensorRef> tensors_of(std::vector<std::vector<T>>& values) {
  std::vector<TensorRef> out;
  for (std::vector<T>& v : values) out.push_back(host_tensor(std::span(v)));
  return out;
}

}  // namespace lamina::testing
