#include "backends/cuda/emulation/fiber.h"

#include <boost/context/protected_fixedsize_stack.hpp>
#include <utility>

namespace lamina::cuda::emulation {
namespace {

// Instrumented code needs larger frames.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr std::size_t kStackBytes = 256 << 10;
#else
constexpr std::size_t kStackBytes = 128 << 10;
#endif

}  // namespace

Fiber::Fiber(std::function<void(Fiber&)> body) {
  boost::context::protected_fixedsize_stack allocator(kStackBytes);
  const boost::context::stack_context stack = allocator.allocate();
  mine_ = StackMark(static_cast<const char*>(stack.sp) - stack.size, stack.size);
  self_ = boost::context::fiber(
      std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), allocator,
      [this, run = std::move(body)](boost::context::fiber&& caller) {
        struct Leave {
          Fiber& fiber;
          ~Leave() { fiber.mine_.leave_for(fiber.callers_, true); }
        };
        mine_.arrive(callers_);
        caller_ = std::move(caller);
        const Leave leave{*this};
        run(*this);
        return std::move(caller_);
      });
}

Fiber::~Fiber() {
  if (!self_) return;
  callers_.leave_for(mine_);
  self_ = {};
  callers_.arrive(mine_);
}

void Fiber::resume() {
  callers_.leave_for(mine_);
  self_ = std::move(self_).resume();
  callers_.arrive(mine_);
}

void Fiber::suspend() {
  // Also if the fiber is unwound.
  struct Arrive {
    Fiber& fiber;
    ~Arrive() { fiber.mine_.arrive(fiber.callers_); }
  };
  mine_.leave_for(callers_);
  const Arrive arrive{*this};
  caller_ = std::move(caller_).resume();
}

}  // namespace lamina::cuda::emulation
