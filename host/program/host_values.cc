#include "program/host_values.h"

#include <cstring>

#include "core/error.h"
#include "core/float16.h"
#include "core/round_up.h"

namespace lamina::program {
namespace {

template <typename To, typename From>
void write_as(std::byte* to, std::span<const From> elements) {
  for (const From element : elements) {
    const To value = static_cast<To>(element);
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  }
}

// Writes elements of a tensor.
template <typename From>
void write(std::byte* to, DType dtype, std::span<const From> elements) {
  switch (dtype) {
    case DType::i32:
      return write_as<std::int32_t>(to, elements);
    case DType::i64:
      return write_as<std::int64_t>(to, elements);
    case DType::f32:
      return write_as<float>(to, elements);
    case DType::f64:
      return write_as<double>(to, elements);
    default:
      LAMINA_ASSERT(dtype == DType::bf16);
      for (const From element : elements) {
        const bfloat16 value = to_bfloat16(static_cast<float>(element));
        std::memcpy(to, &value, sizeof value);
        to += sizeof value;
      }
  }
}

template <typename T>
std::vector<double> read_as(const std::byte* from, std::size_t count) {
  std::vector<T> elements(count);
  if (count > 0) std::memcpy(elements.data(), from, count * sizeof(T));
  return {elements.begin(), elements.end()};
}

}  // namespace

std::vector<std::byte> bytes_of(std::span<const double> elements, DType dtype) {
  std::vector<std::byte> out(elements.size() * static_cast<std::size_t>(size_bytes(dtype)));
  write(out.data(), dtype, elements);
  return out;
}

std::size_t HostValues::Region::add(const Type& type) {
  LAMINA_ASSERT(host.empty());
  types.push_back(type);
  begins.push_back(bytes);
  bytes += aligned(static_cast<std::size_t>(type.bytes()));
  return types.size() - 1;
}

void HostValues::allocate() {
  for (Region* region : {&inputs_, &outputs_}) region->host.resize(region->bytes);
}

ConstTensorRef HostValues::input(std::size_t number) const {
  return host_tensor(inputs_.host.data() + inputs_.begins[number], inputs_.types[number]);
}

TensorRef HostValues::output(std::size_t number) {
  return host_tensor(outputs_.host.data() + outputs_.begins[number], outputs_.types[number]);
}

void HostValues::set(std::size_t input, std::span<const double> elements) {
  const Type& type = inputs_.types[input];
  LAMINA_ASSERT(static_cast<std::int64_t>(elements.size()) == type.num_elements());
  write(inputs_.host.data() + inputs_.begins[input], type.dtype, elements);
}

void HostValues::set(std::size_t input, std::span<const std::int64_t> elements) {
  const Type& type = inputs_.types[input];
  LAMINA_ASSERT(static_cast<std::int64_t>(elements.size()) == type.num_elements());
  write(inputs_.host.data() + inputs_.begins[input], type.dtype, elements);
}

std::vector<double> HostValues::get(std::size_t output) const {
  const Type& type = outputs_.types[output];
  const std::byte* from = outputs_.host.data() + outputs_.begins[output];
  const auto count = static_cast<std::size_t>(type.num_elements());
  switch (type.dtype) {
    case DType::f64:
      return read_as<double>(from, count);
    case DType::i32:
      return read_as<std::int32_t>(from, count);
    default:
      LAMINA_ASSERT(type.dtype == DType::f32);
      return read_as<float>(from, count);
  }
}

}  // namespace lamina::program
