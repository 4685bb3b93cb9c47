// Finds the kernels of an op.
#include "backends/cpu/backend.h"

#include <unordered_map>

#include "backends/cpu/device/memory.h"
#include "backends/cpu/kernels.h"
#include "ops/op_code.h"
#include "ops/registry.h"

namespace lamina::cpu {
namespace {

using Lists = std::unordered_map<const Op*, std::span<const KernelChoice>>;

constexpr KernelTable (*kFamilies[])() = {
    attention_kernels,   compressed_kernels,  conv_kernels,    cross_entropy_kernels,
    delta_rule_kernels,  embedding_kernels,   experts_kernels, gemm_kernels,
    grouped_kernels,     index_kernels,       latent_kernels,  layout_kernels,
    linear_scan_kernels, matrix_scan_kernels, ngram_kernels,   norm_kernels,
    optimizer_kernels,   order_kernels,       random_kernels,  reduce_kernels,
    rope_kernels,        sinkhorn_kernels,    softmax_kernels, window_kernels,
};

Lists find_lists() {
  Lists lists;
  for (const Op& op : ops::all())
    if (op.def->elementwise || op.code == OpCode::fused_map) lists[&op] = elementwise_kernels();
  lists[&ops::get(OpCode::custom)] = {};  // the row itself is no plugin's
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
