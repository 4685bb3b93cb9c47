// The queues of the CPU: work runs at once, on the calling thread and the thread pool.
#pragma once

#include "runtime/backend.h"

namespace lamina::cpu {

class CpuContext final : public Context {
 public:
  CpuContext();
  Queue& queue() override { return *queue_; }
  std::unique_ptr<Queue> make_queue() override;

 private:
  std::unique_ptr<Queue> queue_;
};

}  // namespace lamina::cpu
