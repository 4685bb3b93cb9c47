// The bytes of tensors as numbers.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "core/float16.h"
#include "graph/bytes_type.h"

namespace lamina::conformance {

using TensorBytes = std::vector<std::byte>;

// Returns the elements of a tensor. Integers of 8 bytes are read up to 32 bits.
std::vector<float> numbers(const TensorBytes& bytes, DType dtype);

// Changes every number by one rounding of its type, up or down; integers stay.
void disturb(TensorBytes& bytes, DType dtype);

// Calls change(number) for every number of a tensor of bf16 or f32.
template <typename Change>
void change_numbers(TensorBytes& bytes, DType dtype, Change&& change) {
  std::vector<float> values = numbers(bytes, dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    change(values[i]);
    if (dtype == DType::bf16) {
      const bfloat16 x = to_bfloat16(values[i]);
      std::memcpy(bytes.data() + 2 * i, &x, 2);
    } else {
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    }
  }
}

}  // namespace lamina::conformance
