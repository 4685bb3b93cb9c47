#include "train/optimizer/train_state.h"

#include <algorithm>
#include <type_traits>

#include "core/error.h"
#include "core/float16.h"
#include "train/optimizer/update_rules.h"
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

KeptAverage kept_average(const config::TrainSection& train) {
  if (train.ema == 0) return KeptAverage::none;
  return train.eval_weights == "ema" ? KeptAverage::validated : KeptAverage::kept;
}

TrainBytes train_bytes(const decoder::ParameterTable& parameters, DType compute, bool accumulate,
                       const GradientLists& lists, const config::OptimizerSection& optimizer,
                       KeptAverage average) {
  TrainBytes out;
  for (std::size_t i = 0; i < parameters.all().size(); ++i) {
    const Parameter& p = parameters.all()[i];
    const DType used = p.used_dtype(compute), kept = p.kept_dtype(compute);
    (kept == DType::f32 ? out.weights : out.frozen) += value_bytes(p, kept);
    if (used != kept) out.copies += value_bytes(p, used);
    if (!p.learns()) continue;
    if (average != KeptAverage::none) out.average += value_bytes(p);
    if (average == KeptAverage::validated && used != DType::f32) out.copies += value_bytes(p, used);
    for (const StateSpec& state : state_of(p, optimizer))
      out.moments += aligned(static_cast<std::size_t>(state.type.bytes()));
    auto add_gradient = [&](std::int64_t slots) {
      out.gradients += gradient_bytes(p, slots) + id_bytes(slots);
    };
    if (!lists.is_shared(static_cast<int>(i))) add_gradient(slots_of(lists.step, i));
    if (const std::int64_t slots = slots_of(lists.microbatch, i); accumulate && slots > 0)
      add_gradient(slots);
  }
  out.gradients += lists.shared_bytes;
  return out;
}

TrainState::TrainState(const decoder::ParameterTable& parameters, DType compute, bool accumulate,
                       const Backend& backend, GradientLists lists,
                       const config::OptimizerSection& optimizer, KeptAverage average)
    : parameters_(parameters), lists_(std::move(lists)) {
  lists_.microbatch.resize(parameters.all().size());
  lists_.step.resize(parameters.all().size());
  buffer_ = backend.allocate(
      train_bytes(parameters, compute, accumulate, lists_, optimizer, average).total());
  lay_out(compute, accumulate, optimizer, average);
}

void TrainState::declare_states(const config::OptimizerSection& optimizer) {
  const std::vector<Parameter>& parameters = parameters_.all();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].learns()) continue;
    for (StateSpec& spec : state_of(parameters[i], optimizer)) {
      auto known = std::ranges::find(optimizer_states_, spec.prefix, &OptimizerState::prefix);
      if (known == optimizer_states_.end())
        known = optimizer_states_.insert(known, {spec.prefix, {}, {}});
      known->types.resize(parameters.size());
      known->types[i] = spec.type;
    }
  }
}

std::vector<float*> TrainState::float_states(std::string_view prefix) const {
  std::vector<float*> out(parameters_.all().size());
  for (const OptimizerState& state : optimizer_states_)
    for (std::size_t i = 0; i < out.size() && state.prefix == prefix; ++i)
      if (state.types[i] && state.types[i]->dtype == DType::f32)
        out[i] = static_cast<float*>(state.data[i]);
  return out;
}

void TrainState::lay_out(DType compute, bool accumulate, const config::OptimizerSection& optimizer,
                         KeptAverage average) {
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
  auto in_f32 = [&](std::size_t i) { return parameters[i].kept_dtype(compute) == DType::f32; };
  auto trained = [&](std::size_t i) { return parameters[i].learns(); };
  auto values = [&](std::size_t i) { return value_bytes(parameters[i]); };
  auto take_gradients = [&](std::vector<void*>& gradients, std::vector<void*>& ids, auto has,
                            const std::vector<std::int64_t>& slots) {
    take_all(gradients, has,
             [&](std::size_t i) { return gradient_bytes(parameters[i], slots[i]); });
    take_all(
        ids, [&](std::size_t i) { return slots[i] > 0; },
        [&](std::size_t i) { return id_bytes(slots[i]); });
  };
  take_all(masters_, in_f32, values);
  declare_states(optimizer);
  for (OptimizerState& state : optimizer_states_)
    take_all(
        state.data, [&](std::size_t i) { return state.types[i].has_value(); },
        [&](std::size_t i) { return aligned(static_cast<std::size_t>(state.types[i]->bytes())); });
  take_all(
      averages_, [&](std::size_t i) { return average != KeptAverage::none && trained(i); }, values);
  first_moments_ = float_states("m.");
  second_moments_ = float_states("v.");
  auto shared = [&](std::size_t i) { return lists_.is_shared(static_cast<int>(i)); };
  take_gradients(
      gradients_, gradient_ids_, [&](std::size_t i) { return trained(i) && !shared(i); },
      lists_.step);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (shared(i)) gradients_[i] = next + lists_.shared[i];
  next += lists_.shared_bytes;
  if (accumulate) {
    auto listed = [&](std::size_t i) { return lists_.microbatch[i] > 0; };
    take_gradients(more_gradients_, more_gradient_ids_, listed, lists_.microbatch);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (!listed(i)) more_gradients_[i] = gradients_[i];
  }
  for (const Parameter& p : parameters) copy_dtype_.push_back(p.used_dtype(compute));
  take_all(
      used_, [&](std::size_t i) { return copy_dtype_[i] != DType::f32; },
      [&](std::size_t i) { return value_bytes(parameters[i], copy_dtype_[i]); });
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (is_floating(copy_dtype_[i]) && copy_dtype_[i] != DType::f32 &&
        copy_dtype_[i] != DType::bf16)
      throw PluginError(
          {fmt::format("parameter '{}'", parameters[i].name),
           fmt::format("is declared {}; training has parameters in f32, bf16 or integers",
                       name(copy_dtype_[i])),
           {"the plugin must declare it in one of these, or without a type: then it is in the "
            "run's"}});
    if (!used_[i]) used_[i] = masters_[i];
  }
  if (average == KeptAverage::validated) {
    take_all(
        used_averages_, [&](std::size_t i) { return averages_[i] && copy_dtype_[i] != DType::f32; },
        [&](std::size_t i) { return value_bytes(parameters[i], copy_dtype_[i]); });
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (!used_averages_[i]) used_averages_[i] = averages_[i] ? averages_[i] : used_[i];
  }
  LAMINA_ASSERT(next <= buffer_->data() + buffer_->bytes());
}

DType TrainState::kept_dtype(int parameter) const {
  const std::size_t i = static_cast<std::size_t>(parameter);
  return masters_[i] ? DType::f32 : copy_dtype_[i];
}

std::size_t TrainState::kept_bytes(int parameter) const {
  return static_cast<std::size_t>(parameters_[parameter].num_elements() *
                                  size_bytes(kept_dtype(parameter)));
}

std::span<const float> TrainState::values(int parameter, std::vector<float>& wide) const {
  const auto i = static_cast<std::size_t>(parameter);
  if (masters_[i]) return values_of(masters_[i], i);
  LAMINA_ASSERT(copy_dtype_[i] == DType::bf16);
  wide.resize(static_cast<std::size_t>(parameters_[parameter].num_elements()));
  const std::span narrow(static_cast<const bfloat16*>(used_[i]), wide.size());
  std::ranges::transform(narrow, wide.begin(), [](bfloat16 value) { return to_float(value); });
  return wide;
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

std::span<const float> TrainState::values_of(const float* of, std::size_t parameter) const {
  return {of, static_cast<std::size_t>(parameters_.all()[parameter].num_elements())};
}

void TrainState::refresh_copy(int parameter) const {
  if (!has_copy(parameter)) return;
  std::size_t i = static_cast<std::size_t>(parameter);
  weights::store(values_of(masters_[i], i), copy_dtype_[i], 0, static_cast<std::byte*>(used_[i]));
}

void TrainState::begin_averages() const {
  for (std::size_t i = 0; i < averages_.size(); ++i)
    if (averages_[i]) std::ranges::copy(values_of(masters_[i], i), averages_[i]);
}

std::span<void* const> TrainState::used_averages() const {
  LAMINA_ASSERT(!used_averages_.empty());
  for (std::size_t i = 0; i < averages_.size(); ++i)
    if (averages_[i] && used_averages_[i] != averages_[i])
      weights::store(values_of(averages_[i], i), copy_dtype_[i], 0,
                     static_cast<std::byte*>(used_averages_[i]));
  return used_averages_;
}

}  // namespace lamina::train
