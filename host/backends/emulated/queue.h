// The queues of the emulated device.
#pragma once

#include "runtime/backend.h"

namespace lamina::emulated {

class EmulatedContext final : public Context {
 public:
  EmulatedContext();
  Queue& queue() override { return *queue_; }
  std::unique_ptr<Queue> make_queue() override;

 private:
  std::unique_ptr<Queue> queue_;
};

}  // namespace lamina::emulated
