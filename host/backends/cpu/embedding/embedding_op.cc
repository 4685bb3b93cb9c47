// embedding: rows of the table copied; an id outside of the table gives zeros.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& table = n.type(0);
  const std::int64_t vocabulary = table.dim(0), tokens = n.type(1).num_elements();
  const std::int64_t row_bytes = table.dim(1) * size_bytes(table.dtype);
  return make_kernel([=](const KernelArgs& args) {
    const auto* ids = static_cast<const std::int32_t*>(args.inputs[1]);
    if (row_bytes == 0) return;
    parallel_ranges(tokens, 1 + kMinCopyBytes / row_bytes,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t t = begin; t < end; ++t) {
                        std::byte* to = at_byte(args.outputs[0], t * row_bytes);
                        const std::int64_t id = ids[t];
                        if (id < 0 || id >= vocabulary)
                          std::memset(to, 0, static_cast<std::size_t>(row_bytes));
                        else
                          std::memcpy(to, at_byte(args.inputs[0], id * row_bytes),
                                      static_cast<std::size_t>(row_bytes));
                      }
                    });
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace

std::span<const KernelChoice> embedding_kernels() { return kChoices; }

}  // namespace lamina::cpu
