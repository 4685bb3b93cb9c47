#include "graph/call.h"

#include "core/error.h"

namespace lamina {
namespace {

template <typename T>
const T& attr_as(const Op& op, std::span<const AttrValue> attrs, std::string_view name) {
  int index = op.attr_index(name);
  LAMINA_ASSERT(index >= 0);
  const T* value = std::get_if<T>(&attrs[static_cast<std::size_t>(index)]);
  LAMINA_ASSERT(value != nullptr);
  return *value;
}

}  // namespace

double Call::f(std::string_view attr) const { return attr_as<double>(op_, attrs_, attr); }

std::int64_t Call::i(std::string_view attr) const {
  return attr_as<std::int64_t>(op_, attrs_, attr);
}

const std::string& Call::s(std::string_view attr) const {
  return attr_as<std::string>(op_, attrs_, attr);
}

const std::vector<std::int64_t>& Call::list(std::string_view attr) const {
  return attr_as<std::vector<std::int64_t>>(op_, attrs_, attr);
}

const std::vector<double>& Call::f_list(std::string_view attr) const {
  return attr_as<std::vector<double>>(op_, attrs_, attr);
}

const std::shared_ptr<const Graph>& Call::body(std::string_view attr) const {
  return attr_as<std::shared_ptr<const Graph>>(op_, attrs_, attr);
}

void Call::refuse(std::string message) const {
  ErrorText text{op_.name, std::move(message), {}};
  if (origin_) text.notes.push_back(to_string(*origin_));
  throw UserError(ExitCode::usage, std::move(text));
}

std::string Call::input_name(int i) const {
  std::size_t last = op_.inputs.size() - 1;
  if (static_cast<std::size_t>(i) < last || !op_.inputs[last].variadic)
    return op_.inputs[static_cast<std::size_t>(i)].name;
  return fmt::format("{} {}", op_.inputs[last].name, static_cast<std::size_t>(i) - last);
}

void Call::require_floating(int input) const {
  if (has(input))
    require(is_floating(type(input).dtype), "{} must have a floating-point dtype, got {}",
            input_name(input), to_string(type(input)));
}

void Call::require_dtype(int input, DType dtype) const {
  if (has(input))
    require(type(input).dtype == dtype, "{} must have dtype {}, got {}", input_name(input),
            name(dtype), to_string(type(input)));
}

void Call::require_ndim(int input, int ndim) const {
  if (has(input))
    require(type(input).ndim() == ndim, "{} must have {} dims, got {}", input_name(input), ndim,
            to_string(type(input)));
}

void Call::require_shape(int input, const Shape& shape) const {
  if (has(input))
    require(type(input).shape == shape, "{} must be {}, got {}", input_name(input),
            to_string(shape), to_string(type(input)));
}

}  // namespace lamina
