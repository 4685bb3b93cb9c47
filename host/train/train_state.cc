#include "train/train_state.h"

#include <algorithm>
#include <type_traits>

#include "core/error.h"
#include "weights/weights.h"

namespace lamina::train {

namespace {

using decoder::Parameter;

std::size_t value_bytes(const Parameter& p, DType dtype = DType::f32) {
  return aligned(static_cast<std::size_t>(p.num_elements() * size_bytes(dtype)));
}
// Of a gradient: whole, or the rows of a list.
std::size_t gradient_bytes(const Parameter& p, std::int64_t slots) {
  if (slots == 0) return value_bytes(p);
  return aligned(static_cast<std::size_t>(slots * p.desc.shape[-1]) * sizeof(float));
}
std::size_t id_bytes(std::int64_t slots) {
  return aligned(static_cast<std::size_t>(slots) * sizeof(std::int32_t));
}
std::int64_t slots_of(const std::vector<std::int64_t>& slots, std::size_t parameter) {
  return parameter < slots.size() ? slots[parameter] : 0;
}

}  // namespace

TrainBytes train_bytes(const decoder::ParameterTable& parameters, DType compute, bool accumulate,
                       const GradientLists& lists) {
  TrainBytes out;
  for (std::size_t i = 0; i < parameters.all().size(); ++i) {
    const Parameter& p = parameters.all()[i];
    out.weights += value_bytes(p);
    if (DType used = p.used_dtype(compute); used != DType::f32) out.copies += value_bytes(p, used);
    if (!p.learns()) continue;
    out.moments += 2 * value_bytes(p);
    auto add_gradient = [&](std::int64_t slots) {
      out.gradients += gradient_bytes(p, slots) + id_bytes(slots);
    };
    add_gradient(slots_of(lists.step, i));
    if (accumulate) add_gradient(slots_of(lists.microbatch, i));
  }
  return out;
}

TrainState::TrainState(const decoder::ParameterTable& parameters, DType compute, bool accumulate,
                       const Backend& backend, GradientLists lists)
    : parameters_(parameters), lists_(std::move(lists)) {
  lists_.microbatch.resize(parameters.all().size());
  lists_.step.resize(parameters.all().size());
  buffer_ = backend.allocate(train_bytes(parameters, compute, accumulate, lists_).total());
  lay_out(compute, accumulate);
}

void TrainState::lay_out(DType compute, bool accumulate) {
  const std::vector<Parameter>& parameters = parameters_.all();
  std::byte* next = buffer_->data();
  // One tensor a parameter that `has` one. Kind by kind, so that each optimizer pass walks few long
  // streams.
  auto take_all = [&](auto& out, auto has, auto bytes_of) {
    using Pointer = typename std::remove_reference_t<decltype(out)>::value_type;
    out.assign(parameters.size(), nullptr);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!has(i)) continue;
      out[i] = reinterpret_cast<Pointer>(next);
      next += bytes_of(i);
    }
  };
  auto always = [](std::size_t) { return true; };
  auto trained = [&](std::size_t i) { return parameters[i].learns(); };
  auto values = [&](std::size_t i) { return value_bytes(parameters[i]); };
  auto take_gradients = [&](std::vector<void*>& rows, std::vector<void*>& ids,
                            const std::vector<std::int64_t>& slots) {
    take_all(rows, trained, [&](std::size_t i) { return gradient_bytes(parameters[i], slots[i]); });
    take_all(
        ids, [&](std::size_t i) { return slots[i] > 0; },
        [&](std::size_t i) { return id_bytes(slots[i]); });
  };
  take_all(masters_, always, values);
  take_all(first_moments_, trained, values);
  take_all(second_moments_, trained, values);
  take_gradients(gradients_, gradient_ids_, lists_.step);
  if (accumulate) take_gradients(more_gradients_, more_gradient_ids_, lists_.microbatch);
  for (const Parameter& p : parameters) copy_dtype_.push_back(p.used_dtype(compute));
  take_all(
      used_, [&](std::size_t i) { return copy_dtype_[i] != DType::f32; },
      [&](std::size_t i) { return value_bytes(parameters[i], copy_dtype_[i]); });
  for (std::size_t i = 0; i < used_.size(); ++i) {
    LAMINA_ASSERT(copy_dtype_[i] == DType::f32 || copy_dtype_[i] == DType::bf16 ||
                  !is_floating(copy_dtype_[i]));
    if (!used_[i]) used_[i] = masters_[i];
  }
  LAMINA_ASSERT(next <= buffer_->data() + buffer_->bytes());
}

std::int64_t TrainState::num_gradient_elements(int parameter) const {
  const decoder::Parameter& p = parameters_[parameter];
  return is_listed(parameter) ? lists_.step[static_cast<std::size_t>(parameter)] * p.desc.shape[-1]
                              : p.num_elements();
}

void TrainState::clear_later_slots() const {
  for (std::size_t i = 0; i < gradient_ids_.size(); ++i) {
    if (!gradient_ids_[i]) continue;
    const Shape& table = parameters_.all()[i].desc.shape;
    const std::int64_t first = lists_.microbatch[i], count = lists_.step[i] - first;
    std::fill_n(static_cast<std::int32_t*>(gradient_ids_[i]) + first, count,
                static_cast<std::int32_t>(table[0]));
    std::fill_n(static_cast<float*>(gradients_[i]) + first * table[-1], count * table[-1], 0.0f);
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
  weights::store(values, copy_dtype_[i], 0, static_cast<std::byte*>(used_[i]));
}

}  // namespace lamina::train
