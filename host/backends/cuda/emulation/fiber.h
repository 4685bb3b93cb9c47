// A function with a separate stack, which runs until it suspends itself.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>

#include "backends/cuda/emulation/stack_switch.h"

namespace lamina::cuda::emulation {

class Fiber {
 public:
  // `body` begins with the first resume(), and may only be left by an exception of this class: an
  // unfinished body is unwound when the fiber ends.
  explicit Fiber(std::function<void(Fiber&)> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();   // returns when the body suspends
  void suspend();  // called by the body; returns with the next resume()

  int thread = 0;  // of the block, that it runs

 private:
  boost::context::fiber self_, caller_;
  StackMark mine_, callers_;
};

}  // namespace lamina::cuda::emulation
