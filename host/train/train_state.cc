#include "train/train_state.h"

#include "core/error.h"
#include "core/float16.h"

namespace lamina::train {

TrainState::TrainState(const decoder::ParameterTable& parameters, DType compute, bool accumulate,
                       const Backend& backend)
    : parameters_(parameters) {
  std::size_t tensors = accumulate ? 5 : 4, bytes = 0;
  for (const decoder::Parameter& p : parameters.all()) {
    std::size_t elements = static_cast<std::size_t>(p.num_elements());
    bytes += tensors * aligned(elements * sizeof(float));
    if (p.used_dtype(compute) != DType::f32)
      bytes += aligned(elements * static_cast<std::size_t>(size_bytes(p.used_dtype(compute))));
  }
  buffer_ = backend.allocate(bytes);
  std::byte* next = buffer_->data();
  auto take = [&](std::size_t size) {
    std::byte* at = next;
    next += aligned(size);
    return at;
  };
  // Kind by kind, so that each optimizer pass walks few long streams.
  auto take_all = [&](auto& out) {
    using Pointer = typename std::remove_reference_t<decltype(out)>::value_type;
    for (const decoder::Parameter& p : parameters.all())
      out.push_back(reinterpret_cast<Pointer>(
          take(static_cast<std::size_t>(p.num_elements()) * sizeof(float))));
  };
  take_all(masters_);
  take_all(first_moments_);
  take_all(second_moments_);
  take_all(gradients_);
  if (accumulate) take_all(more_gradients_);
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    const decoder::Parameter& p = parameters.all()[i];
    DType dtype = p.used_dtype(compute);
    LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
    used_.push_back(dtype == DType::f32
                        ? static_cast<void*>(masters_[i])
                        : take(static_cast<std::size_t>(p.num_elements() * size_bytes(dtype))));
  }
}

void TrainState::refresh_copies() {
  for (std::size_t i = 0; i < masters_.size(); ++i) refresh_copy(static_cast<int>(i));
}

void TrainState::refresh_copy(int parameter) const {
  if (!has_copy(parameter)) return;
  std::size_t i = static_cast<std::size_t>(parameter);
  auto* copy = static_cast<bfloat16*>(used_[i]);
  std::int64_t n = parameters_.all()[i].num_elements();
  for (std::int64_t k = 0; k < n; ++k) copy[k] = to_bfloat16(masters_[i][k]);
}

}  // namespace lamina::train
