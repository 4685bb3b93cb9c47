#include "train/train_state.h"

#include "core/error.h"
#include "decoder/weights.h"

namespace lamina::train {

TrainState::TrainState(const decoder::ParameterTable& parameters, DType compute, bool accumulate,
                       const Backend& backend)
    : parameters_(parameters) {
  const std::size_t trained = accumulate ? 5 : 4;  // tensors of a parameter that learns
  std::size_t bytes = 0;
  for (const decoder::Parameter& p : parameters.all()) {
    std::size_t elements = static_cast<std::size_t>(p.num_elements());
    bytes += (p.desc.trained ? trained : 1) * aligned(elements * sizeof(float));
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
  auto take_all = [&](auto& out, bool all = false) {
    using Pointer = typename std::remove_reference_t<decltype(out)>::value_type;
    for (const decoder::Parameter& p : parameters.all())
      out.push_back(all || p.desc.trained
                        ? reinterpret_cast<Pointer>(
                              take(static_cast<std::size_t>(p.num_elements()) * sizeof(float)))
                        : nullptr);
  };
  take_all(masters_, true);
  take_all(first_moments_);
  take_all(second_moments_);
  take_all(gradients_);
  if (accumulate) take_all(more_gradients_);
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    const decoder::Parameter& p = parameters.all()[i];
    DType dtype = p.used_dtype(compute);
    LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16 || !is_floating(dtype));
    copy_dtype_.push_back(dtype);
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
  const decoder::Parameter& p = parameters_.all()[i];
  const std::span<const float> values(masters_[i], static_cast<std::size_t>(p.num_elements()));
  decoder::store(values, copy_dtype_[i], 0, static_cast<std::byte*>(used_[i]));
}

}  // namespace lamina::train
