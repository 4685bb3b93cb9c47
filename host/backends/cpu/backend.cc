// Finds the kernels of an op.
#include "backends/cpu/backend.h"

#include <unordered_map>

#include "backends/cpu/kernels.h"
#include "backends/cpu/queue.h"
#include "backends/cpu/threads/memory.h"
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
