#include "backends/cpu/queue.h"

#include <chrono>
#include <cstring>

#include "core/error.h"

namespace lamina::cpu {
namespace {

class CpuEvent final : public Event {
 public:
  void wait() const override {}
  double seconds() const override {
    return std::chrono::duration<double>(time_.time_since_epoch()).count();
  }

 private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

// Has no state, so all threads may use it.
class CpuQueue final : public Queue {
 public:
  void enqueue(Kernel& kernel, const KernelArgs& args) override { kernel.run(args); }
  void copy(const TensorRef& to, const ConstTensorRef& from) override {
    LAMINA_ASSERT(to.bytes() == from.bytes());
    if (to.bytes() > 0)
      std::memmove(reinterpret_cast<void*>(to.address()),
                   reinterpret_cast<const void*>(from.address()), to.bytes());
  }
  void fill(const TensorRef& to, std::byte value) override {
    if (to.bytes() > 0)
      std::memset(reinterpret_cast<void*>(to.address()), std::to_integer<int>(value), to.bytes());
  }
  std::shared_ptr<const Event> record() override { return std::make_shared<const CpuEvent>(); }
  void wait(std::shared_ptr<const Event>) override {}
  void finish() override {}
};

}  // namespace

CpuContext::CpuContext() : queue_(make_queue()) {}

std::unique_ptr<Queue> CpuContext::make_queue() { return std::make_unique<CpuQueue>(); }

}  // namespace lamina::cpu
