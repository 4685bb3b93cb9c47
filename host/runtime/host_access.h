// Reading and writing tensors on the host, wherever they are: in place where the host may touch
// their memory, else by a copy.
//
//   double sum = read_tensor<float>(queue, gradient, [](std::span<const float> g) { ... });
//   write_tensor<float>(queue, weight, [&](std::span<float> w) { initialise(parameter, seed, w);
//   });
#pragma once

#include <utility>
#include <vector>

#include "runtime/queue.h"

namespace lamina {

// Calls `use` with the elements, after all work of the queue, and returns what it returns.
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

// The elements, after all work of the queue.
template <typename T>
std::vector<T> copy_to_host(Queue& queue, const ConstTensorRef& tensor) {
  return read_tensor<T>(queue, tensor, [](std::span<const T> values) {
    return std::vector<T>(values.begin(), values.end());
  });
}

// Calls `make` with memory for all elements, which it sets. Work that is enqueued later finds them.
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

// Calls `change` with the elements, which it may change.
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
