// cache_write: token rows copied into their slots; slots outside of the cache are left alone.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& cache = n.type(0);
  const std::int64_t batch = cache.dim(0), capacity = cache.dim(1), tokens = n.type(1).dim(1);
  const std::int64_t row_bytes = product(cache.shape, 2, cache.ndim()) * size_bytes(cache.dtype);
  const std::int64_t cache_bytes = cache.bytes();
  const bool ring = n.i("ring") != 0;
  const std::int64_t first = n.i("first"),
                     slots = n.i("slots") > 0 ? n.i("slots") : capacity - first;
  return make_kernel([=](const KernelArgs& args) {
    parallel_copy(args.outputs[0], args.inputs[0], cache_bytes);  // nothing when in place
    const auto* start = static_cast<const std::int32_t*>(args.inputs[2]);
    if (row_bytes == 0) return;
    parallel_ranges(batch * tokens, 1 + kMinCopyBytes / row_bytes,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        const std::int64_t b = i / tokens;
                        std::int64_t slot = start[b] + i % tokens;
                        if (ring) slot %= slots;
                        if (slot < 0 || slot >= slots) continue;
                        const std::int64_t to = b * capacity + first + slot;
                        std::memcpy(at_byte(args.outputs[0], to * row_bytes),
                                    at_byte(args.inputs[1], i * row_bytes),
                                    static_cast<std::size_t>(row_bytes));
                      }
                    });
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace

std::span<const KernelChoice> cache_write_kernels() { return kChoices; }

}  // namespace lamina::cpu
