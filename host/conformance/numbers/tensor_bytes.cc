#include "conformance/numbers/tensor_bytes.h"

#include <algorithm>

#include "conformance/numbers/compare.h"

namespace lamina::conformance {

std::vector<float> numbers(const TensorBytes& bytes, DType dtype) {
  std::vector<float> out(bytes.size() / static_cast<std::size_t>(size_bytes(dtype)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (dtype == DType::bf16) {
      bfloat16 x;
      std::memcpy(&x, bytes.data() + 2 * i, 2);
      out[i] = to_float(x);
    } else if (dtype == DType::f32) {
      std::memcpy(&out[i], bytes.data() + 4 * i, 4);
    } else {
      std::int32_t x = 0;
      std::memcpy(&x, bytes.data() + i * static_cast<std::size_t>(size_bytes(dtype)),
                  std::min<std::size_t>(4, static_cast<std::size_t>(size_bytes(dtype))));
      out[i] = static_cast<float>(x);
    }
  }
  return out;
}

void disturb(TensorBytes& bytes, DType dtype) {
  if (!is_floating(dtype)) return;
  std::vector<float> values = numbers(bytes, dtype);
  conformance::disturb(values, dtype == DType::bf16 ? 1.0 / 256 : 1e-7);
  std::size_t i = 0;
  change_numbers(bytes, dtype, [&](float& x) { x = values[i++]; });
}

}  // namespace lamina::conformance
