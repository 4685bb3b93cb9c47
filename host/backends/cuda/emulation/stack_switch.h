// Announces switches between the stacks of fibers to the address and thread sanitizers.
#pragma once

#include <cstddef>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace lamina::cuda::emulation {

// A stack: of a fiber, or of the thread that resumes fibers.
class StackMark {
 public:
#if defined(__SANITIZE_ADDRESS__)
  StackMark() = default;
  StackMark(const void* bottom, std::size_t bytes) : bottom_(bottom), bytes_(bytes) {}
  // Before a switch from this stack to another; `ends`: it never comes back.
  void leave_for(const StackMark& to, bool ends = false) {
    __sanitizer_start_switch_fiber(ends ? nullptr : &fake_, to.bottom_, to.bytes_);
  }
  // First thing after a switch to this stack, from `from`.
  void arrive(StackMark& from) {
    __sanitizer_finish_switch_fiber(fake_, &from.bottom_, &from.bytes_);
  }

 private:
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
  void* fake_ = nullptr;
#elif defined(__SANITIZE_THREAD__)
  StackMark() = default;
  StackMark(const void*, std::size_t) : fiber_(__tsan_create_fiber(0)), owned_(true) {}
  StackMark& operator=(StackMark&& other) noexcept {
    std::swap(fiber_, other.fiber_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~StackMark() {
    if (owned_) __tsan_destroy_fiber(fiber_);
  }
  void leave_for(StackMark& to, bool = false) {
    if (!owned_) fiber_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.fiber_, 0);
  }
  void arrive(StackMark&) {}

 private:
  void* fiber_ = nullptr;
  bool owned_ = false;
#else
  StackMark() = default;
  StackMark(const void*, std::size_t) {}
  void leave_for(const StackMark&, bool = false) {}
  void arrive(StackMark&) {}
#endif
};

}  // namespace lamina::cuda::emulation
