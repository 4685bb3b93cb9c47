// Memory of the emulated GPU, as kernels see it: places that know the ends of their allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backends/cuda/gpu/address.h"
#include "backends/cuda/gpu/emulated_thread.h"

namespace lamina::cuda::gpu {

template <typename T, int N>
struct Vector;

namespace detail {

// An array in memory that the host can access.
struct CheckedMemory {
  std::byte* begin = nullptr;
  std::int64_t bytes = 0;
};
// An address of the device in its allocation. Faults if there is none.
struct Located {
  CheckedMemory extent;
  std::int64_t offset = 0;
};
Located locate(Address address);

[[noreturn, gnu::cold]] void fault_outside(const char* memory, const CheckedMemory& extent,
                                           std::int64_t offset, std::int64_t bytes);
[[noreturn, gnu::cold]] void fault_misaligned(const char* memory, std::int64_t alignment);
[[noreturn, gnu::cold]] void fault_early();

inline void check_inside(const char* memory, const CheckedMemory& extent, std::int64_t offset,
                         std::int64_t bytes) {
  if (offset < 0 || offset > extent.bytes - bytes) fault_outside(memory, extent, offset, bytes);
}
inline void check_aligned(const char* memory, const void* at, std::int64_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(at) % static_cast<std::uintptr_t>(alignment) != 0)
    fault_misaligned(memory, alignment);
}

// Arrays of the block, by the address of a constant of the array.
CheckedMemory static_shared_extent(const char* key, std::int64_t bytes);
CheckedMemory dynamic_shared_extent();

// Notes an access of this thread to shared memory, for the checks of races (LAMINA_GPU_RACES) and
// of memory that products of warpgroups read.
void note_shared(const std::byte* at, std::int64_t bytes, bool writes);
inline void note(const void* at, std::int64_t bytes, bool writes) {
  if (this_thread->watches_shared) note_shared(static_cast<const std::byte*>(at), bytes, writes);
}

// Enters a copy that happens at the latest in wait_copies().
void add_copy(void* to, const void* from, std::int64_t bytes);

}  // namespace detail

// A place in global memory.
template <typename T>
class Global {
 public:
  Global() = default;
  explicit Global(Address a) {
    if (a.value == 0) return;
    const detail::Located at = detail::locate(a);
    extent_ = at.extent, offset_ = at.offset;
    detail::check_aligned("global", extent_.begin + offset_, alignof(T));
  }
  Global(const detail::CheckedMemory& extent, std::int64_t offset)
      : extent_(extent), offset_(offset) {}
  template <typename U>
  requires std::is_same_v<T, const U> Global(const Global<U>& other)
      : extent_(other.extent_), offset_(other.offset_) {}
  explicit operator bool() const { return extent_.begin != nullptr; }

  T& operator[](std::int64_t i) const { return *at(i, 1); }
  Global operator+(std::int64_t n) const {
    return Global(extent_, offset_ + n * static_cast<std::int64_t>(sizeof(T)));
  }

  // Elements [i, i + count). Only for the functions below.
  T* at(std::int64_t i, int count) const {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t offset = offset_ + i * kBytes;
    if (!this_thread->has_waited) detail::fault_early();
    detail::check_inside("global", extent_, offset, count * kBytes);
    return reinterpret_cast<T*>(extent_.begin + offset);
  }

 private:
  template <typename>
  friend class Global;
  detail::CheckedMemory extent_;
  std::int64_t offset_ = 0;
};

// An element of shared memory. Write `const float v = x[i]`, not `auto`.
template <typename T>
class SharedElement {
 public:
  explicit SharedElement(T* at) : at_(at) {}
  SharedElement(const SharedElement&) = default;
  operator T() const {
    detail::note(at_, sizeof(T), false);
    return *at_;
  }
  T operator=(T value) const {
    detail::note(at_, sizeof(T), true);
    return *at_ = value;
  }
  T operator=(const SharedElement& other) const { return *this = static_cast<T>(other); }
  T operator+=(T value) const { return *this = static_cast<T>(static_cast<T>(*this) + value); }
  T operator-=(T value) const { return *this = static_cast<T>(static_cast<T>(*this) - value); }
  T operator*=(T value) const { return *this = static_cast<T>(static_cast<T>(*this) * value); }

 private:
  T* at_;
};

// A place in the shared memory of the block.
template <typename T>
class Shared {
 public:
  Shared() = default;
  Shared(const detail::CheckedMemory& extent, std::int64_t offset)
      : extent_(extent), offset_(offset) {}
  template <typename U>
  requires std::is_same_v<T, const U> Shared(const Shared<U>& other)
      : extent_(other.extent_), offset_(other.offset_) {}

  auto operator[](int i) const {
    if constexpr (std::is_const_v<T>)
      return static_cast<std::remove_const_t<T>>(SharedElement<T>(at(i, 1)));
    else
      return SharedElement<T>(at(i, 1));
  }
  Shared operator+(int n) const {
    return Shared(extent_, offset_ + std::int64_t{n} * static_cast<std::int64_t>(sizeof(T)));
  }

  // Elements [i, i + count). Only for the functions below.
  T* at(int i, int count) const {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t offset = offset_ + i * kBytes;
    detail::check_inside("shared", extent_, offset, count * kBytes);
    return reinterpret_cast<T*>(extent_.begin + offset);
  }

 private:
  template <typename>
  friend class Shared;
  detail::CheckedMemory extent_;
  std::int64_t offset_ = 0;
};

namespace detail {
template <typename T>
Shared<T> static_shared(const char* key, std::int64_t count) {
  return Shared<T>(static_shared_extent(key, count * static_cast<std::int64_t>(sizeof(T))), 0);
}

template <int N, typename T>
Vector<std::remove_const_t<T>, N> read_vector(const char* memory, const T* at) {
  Vector<std::remove_const_t<T>, N> out;
  check_aligned(memory, at, sizeof(out));
  std::memcpy(&out, at, sizeof(out));
  return out;
}
template <int N, typename T>
void write_vector(const char* memory, T* at, const Vector<T, N>& v) {
  check_aligned(memory, at, sizeof(v));
  std::memcpy(at, &v, sizeof(v));
}
}  // namespace detail

template <typename T>
Shared<T> dynamic_shared(int first_byte = 0) {
  const Shared<T> out(detail::dynamic_shared_extent(), first_byte);
  detail::check_aligned("shared", out.at(0, 0), alignof(T));
  return out;
}

template <int N, typename T>
Vector<std::remove_const_t<T>, N> load_vector(Global<T> x, std::int64_t i) {
  return detail::read_vector<N>("global", x.at(i, N));
}
template <int N, typename T>
void store_vector(Global<T> x, std::int64_t i, const Vector<T, N>& v) {
  detail::write_vector<N>("global", x.at(i, N), v);
}
template <int N, typename T>
Vector<std::remove_const_t<T>, N> load_vector(Shared<T> x, int i) {
  detail::note(x.at(i, N), static_cast<std::int64_t>(N * sizeof(T)), false);
  return detail::read_vector<N>("shared", x.at(i, N));
}
template <int N, typename T>
void store_vector(Shared<T> x, int i, const Vector<T, N>& v) {
  detail::note(x.at(i, N), static_cast<std::int64_t>(N * sizeof(T)), true);
  detail::write_vector<N>("shared", x.at(i, N), v);
}

// Integer atomics return the value before.
template <typename T>
T atomic_add(Global<T> x, std::int64_t i, std::type_identity_t<T> v) {
  static_assert(std::is_integral_v<T>);
  return __atomic_fetch_add(x.at(i, 1), v, __ATOMIC_RELAXED);
}
template <typename T>
T atomic_add(Shared<T> x, int i, std::type_identity_t<T> v) {
  static_assert(std::is_integral_v<T>);
  return __atomic_fetch_add(x.at(i, 1), v, __ATOMIC_RELAXED);
}
namespace detail {
template <typename T>
T atomic_max_at(T* at, T v) {
  static_assert(std::is_integral_v<T>);
  T before = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (before < v &&
         !__atomic_compare_exchange_n(at, &before, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
}
}  // namespace detail
template <typename T>
T atomic_max(Global<T> x, std::int64_t i, std::type_identity_t<T> v) {
  return detail::atomic_max_at(x.at(i, 1), v);
}
template <typename T>
T atomic_max(Shared<T> x, int i, std::type_identity_t<T> v) {
  return detail::atomic_max_at(x.at(i, 1), v);
}

// The data arrives in wait_copies(), not earlier; a kernel that does not wait finds poison.
template <int Bytes, typename T, typename From>
void copy_async(Shared<T> to, Global<From> from) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  static_assert(std::is_same_v<const T, const From>);
  static_assert(Bytes % sizeof(T) == 0);
  constexpr int kCount = Bytes / static_cast<int>(sizeof(T));
  T* const target = to.at(0, kCount);
  const T* const source = from.at(0, kCount);
  detail::check_aligned("shared", target, Bytes);
  detail::check_aligned("global", source, Bytes);
  detail::add_copy(target, source, Bytes);
}
void commit_copies();
namespace detail {
void wait_until_copies(int groups);
}
template <int N>
void wait_copies() {
  detail::wait_until_copies(N);
}

}  // namespace lamina::cuda::gpu
