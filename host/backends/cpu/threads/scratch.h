// Divides scratch memory into pieces. Also for files that are compiled for several instruction
// sets, hence everything is internal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/round_up.h"

namespace lamina::cpu {
namespace {

// Returns 64-byte aligned pieces of a workspace; with a null base it only counts.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<std::byte*>(base)) {}
  template <class T>
  T* take(std::int64_t count) {
    T* p = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += round_up(count * static_cast<std::int64_t>(sizeof(T)), 64);
    return p;
  }
  std::int64_t used_bytes() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

}  // namespace
}  // namespace lamina::cpu
