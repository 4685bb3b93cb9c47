#include "backends/cuda/backend.h"

#include <unordered_map>

#include "backends/cuda/context.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/memory.h"
#include "ops/op_code.h"
#include "ops/registry.h"

namespace lamina::cuda {
namespace {

using ChoicesByOp = std::unordered_map<const Op*, std::span<const KernelChoice>>;

constexpr KernelTable (*kFamilies[])() = {
#define LAMINA_CUDA_FAMILY(name) name##_kernels,
#include "backends/cuda/families.def"
#undef LAMINA_CUDA_FAMILY
};

ChoicesByOp find_choices() {
  ChoicesByOp out;
  for (KernelTable (*family)() : kFamilies)
    for (const OpKernels& kernels : family()) out[&ops::get(kernels.op)] = kernels.choices;
  return out;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(const DriverApi& api, std::span<const ModuleImage> images, int ordinal,
              const Libraries& libraries, const std::string& cache)
      : context_(std::make_unique<CudaContext>(api, images, libraries, ordinal, cache)) {}

  std::string_view name() const override { return "cuda"; }
  std::span<const KernelChoice> kernels(const Op& op) const override {
    static const ChoicesByOp choices = find_choices();
    static const Op& custom = ops::get(OpCode::custom);
    if (&op == &custom) return {};  // the op "custom" itself belongs to no plugin
    const auto found = choices.find(op.code == OpCode::custom ? &custom : &op);
    return found == choices.end() ? std::span<const KernelChoice>{} : found->second;
  }
  Context& context() const override { return *context_; }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) const override {
    return allocate_on_device(*context_, bytes);
  }
  std::unique_ptr<Buffer> allocate_for_copies(std::size_t bytes) const override {
    return allocate_pinned(*context_, bytes);
  }
  bool reaches(MemoryKind kind) const override { return kind == MemoryKind::device; }

 private:
  std::unique_ptr<CudaContext> context_;
};

}  // namespace

std::unique_ptr<Backend> open_backend(const DriverApi& api, std::span<const ModuleImage> images,
                                      int ordinal, const Libraries& libraries,
                                      const std::string& cache) {
  return std::make_unique<CudaBackend>(api, images, ordinal, libraries, cache);
}

}  // namespace lamina::cuda
