#include "train/optimizer/train_state.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"
#include "runtime/host_access.h"
#include "train/optimizer/update_rules.h"
#include "weights/weights.h"

namespace lamina::train {

namespace {

using decoder::Parameter;

std::size_t value_bytes(const Parameter& p, DType dtype = DType::f32) {
  return aligned(static_cast<std::size_t>(p.num_elements() * size_bytes(dtype)));
}
// Returns whether training keeps the parameter in f32, as the optimizer needs it.
bool has_master(const Parameter& p, DType compute) {
  const Type kept = p.kept_type(compute);
  return kept.dtype == DType::f32 && !kept.storage;
}
// Bytes of a gradient: whole, or the rows of a list.
std::size_t gradient_bytes(const Parameter& p, std::int64_t slots) {
  if (slots == 0) return value_bytes(p);
  return aligned(static_cast<std::size_t>(slots * p.desc.shape[-1]) * sizeof(float));
}
// Returns whether the f32 weights are in host memory: graphs read a copy.
bool offloads_master(const Parameter& p, DType compute, const config::OptimizerSection& optimizer) {
  return optimizer.offload && has_master(p, compute) && p.used_dtype(compute) != DType::f32;
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
    const DType used = p.used_dtype(compute);
    (offloads_master(p, compute, optimizer) ? out.offloaded
     : has_master(p, compute)               ? out.weights
                                            : out.frozen) +=
        aligned(static_cast<std::size_t>(p.kept_type(compute).bytes()));
    if (used != p.kept_dtype(compute)) out.copies += value_bytes(p, used);
    if (!p.learns()) continue;
    if (average != KeptAverage::none) out.average += value_bytes(p);
    if (average == KeptAverage::validated && used != DType::f32) out.copies += value_bytes(p, used);
    for (const StateSpec& state : state_of(p, optimizer))
      (optimizer.offload ? out.offloaded : out.moments) +=
          aligned(static_cast<std::size_t>(state.type.bytes()));
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

config::OptimizerSection for_backend(config::OptimizerSection optimizer, const Backend& backend) {
  if (backend.reaches(MemoryKind::pinned)) optimizer.offload = false;
  return optimizer;
}

TrainState::TrainState(const decoder::ParameterTable& parameters, DType compute, bool accumulate,
                       const Backend& backend, GradientLists lists,
                       const config::OptimizerSection& config, KeptAverage average)
    : parameters_(parameters), lists_(std::move(lists)), context_(backend.context()) {
  lists_.microbatch.resize(parameters.all().size());
  lists_.step.resize(parameters.all().size());
  const config::OptimizerSection optimizer = for_backend(config, backend);
  const TrainBytes bytes = train_bytes(parameters, compute, accumulate, lists_, optimizer, average);
  buffer_ = backend.allocate(bytes.total());
  if (bytes.offloaded > 0) host_buffer_ = backend.allocate_for_copies(bytes.offloaded);
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

std::vector<TensorRef> TrainState::float_states(std::string_view prefix) const {
  std::vector<TensorRef> out(parameters_.all().size());
  for (const OptimizerState& state : optimizer_states_)
    for (std::size_t i = 0; i < out.size() && state.prefix == prefix; ++i)
      if (state.types[i] && state.types[i]->dtype == DType::f32) out[i] = state.data[i];
  return out;
}

void TrainState::lay_out(DType compute, bool accumulate, const config::OptimizerSection& optimizer,
                         KeptAverage average) {
  const std::vector<Parameter>& parameters = parameters_.all();
  std::size_t next = 0, next_on_host = 0;
  // Lays out one tensor per parameter that `has` one. Kind by kind, so that each optimizer pass
  // reads few long streams.
  auto on_device = [](std::size_t) { return false; };
  auto take_all_in = [&](std::vector<TensorRef>& out, auto has, auto type_of, auto on_host) {
    out.assign(parameters.size(), {});
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!has(i)) continue;
      const Type type = type_of(i);
      std::size_t& at = on_host(i) ? next_on_host : next;
      out[i] = TensorRef(on_host(i) ? *host_buffer_ : *buffer_, at, type);
      at += aligned(static_cast<std::size_t>(type.bytes()));
    }
  };
  auto take_all = [&](std::vector<TensorRef>& out, auto has, auto type_of) {
    take_all_in(out, has, type_of, on_device);
  };
  auto in_f32 = [&](std::size_t i) { return has_master(parameters[i], compute); };
  auto trained = [&](std::size_t i) { return parameters[i].learns(); };
  auto values = [&](std::size_t i) { return Type{DType::f32, parameters[i].desc.shape, {}}; };
  auto take_gradients = [&](std::vector<TensorRef>& gradients, std::vector<TensorRef>& ids,
                            auto has, const std::vector<std::int64_t>& slots) {
    take_all(gradients, has, [&](std::size_t i) {
      if (slots[i] == 0) return values(i);
      return Type{DType::f32, {slots[i], parameters[i].desc.shape[-1]}, {}};
    });
    take_all(
        ids, [&](std::size_t i) { return slots[i] > 0; },
        [&](std::size_t i) {
          return Type{DType::i32, {slots[i]}, {}};
        });
  };
  take_all_in(masters_, in_f32, values,
              [&](std::size_t i) { return offloads_master(parameters[i], compute, optimizer); });
  declare_states(optimizer);
  for (OptimizerState& state : optimizer_states_)
    take_all_in(
        state.data, [&](std::size_t i) { return state.types[i].has_value(); },
        [&](std::size_t i) { return *state.types[i]; },
        [&](std::size_t) { return optimizer.offload; });
  take_all(
      averages_, [&](std::size_t i) { return average != KeptAverage::none && trained(i); }, values);
  first_moments_ = float_states("m.");
  second_moments_ = float_states("v.");
  auto shared = [&](std::size_t i) { return lists_.is_shared(static_cast<int>(i)); };
  take_gradients(
      gradients_, gradient_ids_, [&](std::size_t i) { return trained(i) && !shared(i); },
      lists_.step);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (shared(i))
      gradients_[i] =
          TensorRef(*buffer_, next + static_cast<std::size_t>(lists_.shared[i]), values(i));
  next += lists_.shared_bytes;
  if (accumulate) {
    auto listed = [&](std::size_t i) { return lists_.microbatch[i] > 0; };
    take_gradients(more_gradients_, more_gradient_ids_, listed, lists_.microbatch);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (!listed(i)) more_gradients_[i] = gradients_[i];
  }
  for (const Parameter& p : parameters) copy_dtype_.push_back(p.used_dtype(compute));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (is_floating(copy_dtype_[i]) && copy_dtype_[i] != DType::f32 &&
        copy_dtype_[i] != DType::bf16)
      throw PluginError(
          {fmt::format("parameter '{}'", parameters[i].name),
           fmt::format("is declared {}; training has parameters in f32, bf16 or integers",
                       name(copy_dtype_[i])),
           {"the plugin must declare it in one of these, or without a type: then it is in the "
            "run's"}});
  auto in_copy_dtype = [&](std::size_t i) {
    return Type{copy_dtype_[i], parameters[i].desc.shape, {}}.stored_as(
        parameters[i].kept_type(compute).storage);
  };
  take_all(
      copies_, [&](std::size_t i) { return copy_dtype_[i] != DType::f32 || !masters_[i]; },
      in_copy_dtype);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    used_.push_back(copies_[i] ? copies_[i] : masters_[i]);
    kept_.push_back(masters_[i] ? masters_[i] : copies_[i]);
    if (!masters_[i]) copies_[i] = {};  // a tensor that is kept is no copy
  }
  if (average == KeptAverage::validated) {
    take_all(
        average_copies_,
        [&](std::size_t i) { return averages_[i] && copy_dtype_[i] != DType::f32; }, in_copy_dtype);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      used_averages_.push_back(average_copies_[i] ? ConstTensorRef(average_copies_[i])
                               : averages_[i]     ? ConstTensorRef(averages_[i])
                                                  : used_[i]);
  }
  LAMINA_ASSERT(next <= buffer_->bytes() && next_on_host <= offloaded_bytes());
}

void TrainState::copy_offloaded(const TrainState& from) {
  LAMINA_ASSERT(offloaded_bytes() == from.offloaded_bytes());
  if (!host_buffer_) return;
  const Type type = bytes_type(offloaded_bytes());
  std::memcpy(host_view<std::byte>(TensorRef(*host_buffer_, 0, type)).data(),
              host_view<std::byte>(ConstTensorRef(*from.host_buffer_, 0, type)).data(),
              offloaded_bytes());
}

DType TrainState::kept_dtype(int parameter) const {
  const std::size_t i = static_cast<std::size_t>(parameter);
  return kept_[i].type().dtype;
}

std::vector<float> TrainState::values(int parameter) const {
  const TensorRef kept = this->kept(parameter);
  std::vector<float> out(static_cast<std::size_t>(kept.type().num_elements()));
  if (const formats::BlockFormat* format = kept.type().storage) {
    read_tensor<std::byte>(queue(), kept, [&](std::span<const std::byte> blocks) {
      for (std::size_t at = 0, value = 0; at < blocks.size();) {
        format->widen(blocks.data() + at, out.data() + value);
        at += static_cast<std::size_t>(format->num_bytes);
        value += static_cast<std::size_t>(format->num_values);
      }
    });
    return out;
  }
  if (kept.type().dtype == DType::f32) {
    read_tensor<float>(queue(), kept,
                       [&](std::span<const float> from) { std::ranges::copy(from, out.begin()); });
    return out;
  }
  LAMINA_ASSERT(kept.type().dtype == DType::bf16);
  read_tensor<bfloat16>(queue(), kept, [&](std::span<const bfloat16> from) {
    std::ranges::transform(from, out.begin(), [](bfloat16 value) { return to_float(value); });
  });
  return out;
}

std::int64_t TrainState::num_gradient_elements(int parameter) const {
  const decoder::Parameter& p = parameters_[parameter];
  return is_listed(parameter) ? lists_.step[static_cast<std::size_t>(parameter)] * p.desc.shape[-1]
                              : p.num_elements();
}

void TrainState::refresh_copies() {
  for (std::size_t i = 0; i < masters_.size(); ++i) refresh_copy(static_cast<int>(i));
}

// Converts to the type of `to`.
void TrainState::store(const ConstTensorRef& from, const TensorRef& to) const {
  read_tensor<float>(queue(), from, [&](std::span<const float> values) {
    write_tensor<std::byte>(queue(), to, [&](std::span<std::byte> out) {
      weights::store(values, to.type().dtype, 0, out.data());
    });
  });
}

void TrainState::refresh_copy(int parameter) const {
  const auto i = static_cast<std::size_t>(parameter);
  if (copies_[i]) store(masters_[i], copies_[i]);
}

void TrainState::begin_averages() const {
  for (std::size_t i = 0; i < averages_.size(); ++i)
    if (averages_[i]) queue().copy(averages_[i], masters_[i]);
}

std::span<const ConstTensorRef> TrainState::used_averages() const {
  LAMINA_ASSERT(!used_averages_.empty());
  for (std::size_t i = 0; i < averages_.size(); ++i)
    if (average_copies_[i]) store(averages_[i], average_copies_[i]);
  return used_averages_;
}

}  // namespace lamina::train
