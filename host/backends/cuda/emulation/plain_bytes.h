// Numbers in memory that is not aligned for them.
#pragma once

#include <cstddef>
#include <cstring>

namespace lamina::cuda::emulation {

template <typename T>
T read_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void write_as(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace lamina::cuda::emulation
