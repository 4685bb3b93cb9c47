// Reads and writes tensors on the host: in place if the host may access their
// memory, else through a copy.
//
//   double sum = read_tensor<float>(queue, gradient, [](std::span<const float> g) { ... });
//   write_tensor<float>(queue, weight, [&](std::span<float> w) { fill(w, 0.5f); });
#pragma once

#include <utility>
#include <vector>

#include "runtime/queue.h"

namespace lamina {

// Waits for all work of the queue, calls `use` with the elements, and returns its result.
template <typename T, typename Use>
decltype(auto) read_tensor(Queue& queue, const ConstTensorRef& tensor, Use&& use) {
  if (is_host_memory(tensor.kind())) {
    queue.finish();
    return use(host_view<T>(tensor));
  }
  std::vector<T> values(tensor.bytes() / sizeof(T));
  queue.copy(host_tensor(values.data(), tensor.type()), tensor);
  queue.finish();
  return use(std::span<const T>(values));
}

// Waits for all work of the queue and returns the elements.
template <typename T>
std::vector<T> copy_to_host(Queue& queue, const ConstTensorRef& tensor) {
  return read_tensor<T>(queue, tensor, [](std::span<const T> values) {
    return std::vector<T>(values.begin(), values.end());
  });
}

// Calls `make`, which must set all elements of the span it receives. Work that is enqueued later
// reads them.
template <typename T, typename Make>
void write_tensor(Queue& queue, const TensorRef& tensor, Make&& make) {
  if (is_host_memory(tensor.kind())) {
    queue.finish();
    return make(host_view<T>(tensor));
  }
  std::vector<T> values(tensor.bytes() / sizeof(T));
  make(std::span<T>(values));
  queue.copy(tensor, host_tensor(std::as_const(values).data(), tensor.type()));
  queue.finish();
}

// Waits for all work of the queue and calls `change` with the elements, which it may modify.
template <typename T, typename Change>
void change_tensor(Queue& queue, const TensorRef& tensor, Change&& change) {
  if (is_host_memory(tensor.kind())) {
    queue.finish();
    return change(host_view<T>(tensor));
  }
  write_tensor<T>(queue, tensor, [&](std::span<T> values) {
    queue.copy(host_tensor(values.data(), tensor.type()), tensor);
    queue.finish();
    change(values);
  });
}

}  // namespace lamina
