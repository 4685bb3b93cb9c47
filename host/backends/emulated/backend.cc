#include "backends/emulated/backend.h"

#include "backends/cpu/backend.h"
#include "backends/emulated/memory.h"
#include "backends/emulated/queue.h"

namespace lamina::emulated {
namespace {

// Host memory that copies go through.
class PinnedBuffer final : public Buffer {
 public:
  explicit PinnedBuffer(std::unique_ptr<Buffer> memory)
      : Buffer(MemoryKind::pinned, reinterpret_cast<const void*>(memory->address()),
               memory->bytes()),
        memory_(std::move(memory)) {}

 private:
  std::unique_ptr<Buffer> memory_;
};

class EmulatedBackend final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::span<const KernelChoice> kernels(const Op& op) const override {
    return cpu::cpu_backend().kernels(op);
  }
  Context& context() const override {
    static EmulatedContext& context = *new EmulatedContext;  // programs may end at exit
    return context;
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) const override {
    return allocate_inaccessible(bytes);
  }
  std::unique_ptr<Buffer> allocate_for_copies(std::size_t bytes) const override {
    return std::make_unique<PinnedBuffer>(cpu::cpu_backend().allocate(bytes));
  }
  bool reaches(MemoryKind kind) const override { return kind == MemoryKind::device; }
};

}  // namespace

const Backend& emulated_backend() {
  static const EmulatedBackend backend;
  return backend;
}

}  // namespace lamina::emulated
