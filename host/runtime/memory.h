// Memory of devices, and tensors in it.
//
// Only host memory can be dereferenced: a TensorRef is a place, and host_view() returns its
// elements if the host may access them. Kernels and queues use addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "core/float16.h"
#include "graph/type.h"

namespace lamina {

// The place of memory, which decides which code may access it.
enum class MemoryKind : std::uint8_t {
  host,    // ordinary memory of this process
  pinned,  // host memory that a device copies from and to while the host runs
  device,  // accessible only to work on a queue of its device
  mapped,  // a file in host memory; read only
};

// Returns "host", "pinned", "device" or "mapped file".
std::string_view name(MemoryKind kind);

constexpr bool is_host_memory(MemoryKind kind) { return kind != MemoryKind::device; }

// A place in memory, as kernels of its device see it. The host must not dereference it.
using Address = std::uintptr_t;

// A block of memory, freed with the object.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  MemoryKind kind() const { return kind_; }
  Address address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 protected:
  explicit Buffer(MemoryKind kind, const void* memory = nullptr, std::size_t bytes = 0)
      : address_(reinterpret_cast<Address>(memory)), bytes_(bytes), kind_(kind) {}

  Address address_;
  std::size_t bytes_;

 private:
  MemoryKind kind_;
};

// Buffers for tensors in memory that no Buffer owns: one for all host memory of this process, one
// for mapped files. [any thread]
Buffer& host_memory();
const Buffer& mapped_memory();

// A read-only, row-major tensor in a buffer. Borrowed; default: no tensor.
class ConstTensorRef {
 public:
  ConstTensorRef() = default;
  // REQUIRES: the tensor is inside the buffer.
  ConstTensorRef(const Buffer& buffer, std::size_t offset, const Type& type)
      : address_(buffer.address() + offset), kind_(buffer.kind()), type_(type) {
    check_bounds(buffer, offset, type);
  }

  explicit operator bool() const { return address_ != 0; }
  MemoryKind kind() const { return kind_; }
  const Type& type() const { return type_; }
  Address address() const { return address_; }
  std::size_t bytes() const { return static_cast<std::size_t>(type_.bytes()); }

  // True if both begin at the same address.
  bool same_place(const ConstTensorRef& other) const { return address_ == other.address_; }

 protected:
  ConstTensorRef(Address address, MemoryKind kind, const Type& type)
      : address_(address), kind_(kind), type_(type) {}
  static void check_bounds(const Buffer& buffer, std::size_t offset, const Type& type);
  void move_to(std::int64_t first, const Type& type);

 private:
  Address address_ = 0;
  MemoryKind kind_ = MemoryKind::host;
  Type type_;
};

// Likewise, but writable.
class TensorRef : public ConstTensorRef {
 public:
  TensorRef() = default;
  // REQUIRES: the tensor is inside the buffer, and the buffer is not a mapped file.
  TensorRef(Buffer& buffer, std::size_t offset, const Type& type)
      : ConstTensorRef(buffer, offset, type) {}

  // Returns the tensor that begins at element `first` of this one. REQUIRES: `type` ends inside
  // this tensor.
  TensorRef part(std::int64_t first, const Type& type) const {
    TensorRef out = *this;
    out.move_to(first, type);
    return out;
  }

 private:
  friend class Program;  // makes tensors from addresses, because it knows their buffers
  TensorRef(Address address, MemoryKind kind, const Type& type)
      : ConstTensorRef(address, kind, type) {}
};

// Returns the dtype of the C++ type T.
template <typename T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) return DType::f32;
  if constexpr (std::is_same_v<U, double>) return DType::f64;
  if constexpr (std::is_same_v<U, bfloat16>) return DType::bf16;
  if constexpr (std::is_same_v<U, float16>) return DType::f16;
  if constexpr (std::is_same_v<U, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<U, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<U, std::byte> || std::is_same_v<U, std::uint8_t>) return DType::u8;
}

// Returns a tensor in borrowed host memory.
inline TensorRef host_tensor(void* memory, const Type& type) {
  return {host_memory(), reinterpret_cast<Address>(memory), type};
}
inline ConstTensorRef host_tensor(const void* memory, const Type& type) {
  return {host_memory(), reinterpret_cast<Address>(memory), type};
}
template <typename T>
auto host_tensor(std::span<T> values) {
  return host_tensor(values.data(),
                     Type{dtype_of<T>(), Shape{static_cast<std::int64_t>(values.size())}, {}});
}
// Returns a tensor in a mapped file.
inline ConstTensorRef mapped_tensor(const std::byte* memory, const Type& type) {
  return {mapped_memory(), reinterpret_cast<Address>(memory), type};
}

namespace detail {
void check_host_view(const ConstTensorRef& tensor, DType dtype, std::size_t element_bytes);
}

// Returns the elements of a tensor in host memory; std::byte for elements of any type. REQUIRES:
// is_host_memory(tensor.kind()), the type fits, and work on the tensor has finished.
template <typename T>
std::span<const T> host_view(const ConstTensorRef& tensor) {
  detail::check_host_view(tensor, dtype_of<T>(), sizeof(T));
  return {reinterpret_cast<const T*>(tensor.address()), tensor.bytes() / sizeof(T)};
}
template <typename T>
std::span<T> host_view(const TensorRef& tensor) {
  detail::check_host_view(tensor, dtype_of<T>(), sizeof(T));
  return {reinterpret_cast<T*>(tensor.address()), tensor.bytes() / sizeof(T)};
}

}  // namespace lamina
