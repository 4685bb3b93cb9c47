#include "decoder/stack/parameter.h"

#include "core/error.h"

namespace lamina::decoder {

namespace {
constexpr std::string_view kWeight = ".weight";
}

std::string module_name(std::string_view weight) {
  if (weight.ends_with(kWeight)) weight.remove_suffix(kWeight.size());
  return std::string(weight);
}

std::string adapter_name(std::string_view weight, std::string_view part) {
  return module_name(weight) + std::string(part);
}

std::string adapted_name(std::string_view adapter) {
  for (const std::string_view part : {kAdapterDown, kAdapterUp, kAdapterMagnitude})
    if (adapter.ends_with(part))
      return std::string(adapter.substr(0, adapter.size() - part.size())) + std::string(kWeight);
  return {};
}

bool Parameter::decays() const {
  using registry::Role;
  if (desc.decay) return *desc.decay;
  // The biases of experts are a table of vectors, but count as vectors.
  const bool is_vector =
      desc.role == Role::bias || desc.role == Role::norm || desc.role == Role::scalar;
  return !is_vector && desc.shape.ndim() >= 2;
}

DType Parameter::used_dtype(DType compute) const {
  if (desc.dtype) return *desc.dtype;
  return desc.shape.ndim() >= 2 || compute == DType::f64 ? compute : DType::f32;
}

int ParameterTable::add(Parameter parameter) {
  int index = static_cast<int>(parameters_.size());
  auto [at, fresh] = by_name_.emplace(parameter.name, index);
  if (!fresh)
    throw PluginError(
        {"model", fmt::format("parameter '{}' is declared twice", parameter.name), {}});
  parameters_.push_back(std::move(parameter));
  return index;
}

int ParameterTable::find(std::string_view name) const {
  auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? -1 : found->second;
}

std::int64_t ParameterTable::num_elements() const {
  std::int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.num_elements();
  return n;
}

}  // namespace lamina::decoder
