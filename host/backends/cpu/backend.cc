// The CPU backend: finds the kernels of an op, which its queues run at once.
#include "backends/cpu/backend.h"

#include <chrono>
#include <cstring>
#include <unordered_map>

#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/memory.h"
#include "core/error.h"
#include "ops/op_code.h"
#include "ops/registry.h"

namespace lamina::cpu {
namespace {

using Lists = std::unordered_map<const Op*, std::span<const KernelChoice>>;

constexpr KernelTable (*kFamilies[])() = {
#define LAMINA_CPU_FAMILY(name) name##_kernels,
#include "backends/cpu/families.def"
#undef LAMINA_CPU_FAMILY
};

Lists find_lists() {
  Lists lists;
  for (const Op& op : ops::all())
    if (op.def->elementwise || op.code == OpCode::fused_map) lists[&op] = elementwise_kernels();
  lists[&ops::get(OpCode::custom)] = {};  // the op "custom" itself belongs to no plugin
  for (KernelTable (*family)() : kFamilies)
    for (const OpKernels& kernels : family()) lists[&ops::get(kernels.op)] = kernels.choices;
  return lists;
}

class CpuEvent final : public Event {
 public:
  void wait() const override {}
  double seconds() const override {
    return std::chrono::duration<double>(time_.time_since_epoch()).count();
  }

 private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

// Work runs at once, on the calling thread and the thread pool. Has no state, so all threads may
// use it.
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

class CpuContext final : public Context {
 public:
  Queue& queue() override { return *queue_; }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<CpuQueue>(); }

 private:
  std::unique_ptr<Queue> queue_ = std::make_unique<CpuQueue>();
};

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  std::span<const KernelChoice> kernels(const Op& op) const override {
    static const Lists lists = find_lists();
    auto found = lists.find(&op);
    if (found != lists.end()) return found->second;
    return op.code == OpCode::custom ? custom_kernels() : std::span<const KernelChoice>{};
  }

  Context& context() const override {
    static CpuContext context;
    return context;
  }

  std::unique_ptr<Buffer> allocate(std::size_t bytes) const override {
    return allocate_memory(bytes);
  }
  std::unique_ptr<Buffer> allocate_for_copies(std::size_t bytes) const override {
    return allocate_memory(bytes);
  }
  bool reaches(MemoryKind kind) const override { return is_host_memory(kind); }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace lamina::cpu
