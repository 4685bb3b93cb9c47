// Numbers for benchmarks in memory of a device: writing all of an 8B model from the host takes
// longer than the measurement.
#pragma once

#include <algorithm>
#include <utility>

#include "runtime/host_access.h"

namespace lamina::bench {

// Calls `make` as write_tensor() does, but in memory that the host cannot access only for the first
// 4 Mi elements of a plain tensor; the device copies them to the others.
template <typename Make>
void write_repeated(Queue& queue, const TensorRef& tensor, Make&& make) {
  constexpr std::int64_t kFirst = std::int64_t{1} << 22;
  const Type& type = tensor.type();
  const std::int64_t count = type.num_elements();
  if (is_host_memory(tensor.kind()) || type.storage || count <= kFirst)
    return write_tensor<std::byte>(queue, tensor, std::forward<Make>(make));
  const auto part = [&](std::int64_t first, std::int64_t elements) {
    return tensor.part(first, {type.dtype, {elements}});
  };
  write_tensor<std::byte>(queue, part(0, kFirst), std::forward<Make>(make));
  for (std::int64_t written = kFirst; written < count;) {
    const std::int64_t next = std::min(written, count - written);
    queue.copy(part(written, next), part(0, next));
    written += next;
  }
}

}  // namespace lamina::bench
