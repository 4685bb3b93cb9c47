// Finds the kernels of an op.
#include "backends/cpu/backend.h"

#include <unordered_map>

#include "backends/cpu/device/memory.h"
#include "backends/cpu/kernels.h"
#include "ops/registry.h"

namespace lamina::cpu {
namespace {

using Lists = std::unordered_map<const Op*, std::span<const KernelChoice>>;

Lists find_lists() {
  Lists lists;
  for (const Op& op : ops::all())
    if (op.def->elementwise || op.name == "fused_map") lists[&op] = elementwise_kernels();
#define LAMINA_CPU_ADD(name) lists[&ops::get(#name)] = name##_kernels();
  LAMINA_CPU_OPS(LAMINA_CPU_ADD)
#undef LAMINA_CPU_ADD
  return lists;
}

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  std::span<const KernelChoice> kernels(const Op& op) const override {
    static const Lists lists = find_lists();
    auto found = lists.find(&op);
    return found == lists.end() ? std::span<const KernelChoice>{} : found->second;
  }

  std::unique_ptr<Buffer> allocate(std::size_t bytes) const override {
    return allocate_memory(bytes);
  }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace lamina::cpu
