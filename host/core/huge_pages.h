// Large pages for memory of many megabytes that is filled at once.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace lamina {

inline constexpr std::size_t kHugePage = std::size_t{1} << 21;  // bytes, on x86-64

// Asks the system to use large pages for memory that is about to be filled, where whole pages fit:
// otherwise ten megabytes take thousands of page faults. A hint; never fails, changes no byte.
void prefer_huge_pages(void* begin, std::size_t num_bytes);

template <typename T>
struct HugePageAllocator {
  using value_type = T;
  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>&) {}

  T* allocate(std::size_t count) {
    const std::size_t num_bytes = count * sizeof(T);
    void* out = ::operator new(num_bytes, alignment(num_bytes));
    prefer_huge_pages(out, num_bytes);
    return static_cast<T*>(out);
  }
  void deallocate(T* memory, std::size_t count) {
    ::operator delete(memory, alignment(count * sizeof(T)));
  }
  bool operator==(const HugePageAllocator&) const = default;

 private:
  static std::align_val_t alignment(std::size_t num_bytes) {
    return std::align_val_t{num_bytes >= kHugePage ? kHugePage : alignof(std::max_align_t)};
  }
};

// A vector that may grow to many megabytes.
template <typename T>
using LargeVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace lamina
