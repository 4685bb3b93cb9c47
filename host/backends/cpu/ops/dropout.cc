// dropout: one Philox4x32-10 block (Salmon et al. 2011) for four neighbouring elements. The counter
// is (i / 4, layer, stream), the key (seed, step) folded to 64 bits; element i is kept when its word
// is not below rate * 2^32.
#include <Random123/philox.h>

#include <cmath>

#include "backends/cpu/ops/kernel_support.h"
#include "backends/cpu/ops/kernels.h"
#include "backends/cpu/threads.h"

namespace lamina::cpu {
namespace {

template <typename T>
void drop(const T* x, T* y, std::int64_t count, double rate, std::uint32_t stream,
          std::uint32_t layer, const std::int64_t* seed) {
  using Wide = typename Number<T>::Wide;
  const auto threshold = static_cast<std::uint64_t>(std::llround(rate * 4294967296.0));
  const Wide factor = static_cast<Wide>(1 / (1 - rate));
  const auto s = static_cast<std::uint64_t>(seed[0]), step = static_cast<std::uint64_t>(seed[1]);
  const r123::Philox4x32::key_type key = {
      {static_cast<std::uint32_t>(s ^ (step << 16)),
       static_cast<std::uint32_t>((s >> 32) ^ (step >> 16) * 0x9e3779b9u)}};
  parallel_ranges((count + 3) / 4, 1024, [&](std::int64_t begin, std::int64_t end) {
    r123::Philox4x32 philox;
    for (std::int64_t block = begin; block < end; ++block) {
      const auto b = static_cast<std::uint64_t>(block);
      const auto words = philox(
          {{static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32), layer, stream}},
          key);
      for (std::int64_t i = block * 4; i < std::min(count, block * 4 + 4); ++i) {
        const bool kept = words[static_cast<std::size_t>(i & 3)] >= threshold;
        y[i] = Number<T>::store(kept ? Number<T>::load(x[i]) * factor : Wide{0});
      }
    }
  });
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  return make_kernel([count = n.type(0).num_elements(), dtype = n.type(0).dtype, rate = n.f("rate"),
                      stream = n.i("stream")](const KernelArgs& args) {
    const void* layer = args.inputs.size() > 2 ? args.inputs[2] : nullptr;
    with_floating(dtype, [&](auto type) {
      using T = decltype(type);
      drop(static_cast<const T*>(args.inputs[0]), static_cast<T*>(args.outputs[0]), count, rate,
           static_cast<std::uint32_t>(stream),
           layer ? static_cast<std::uint32_t>(*static_cast<const std::int32_t*>(layer)) : 0u,
           static_cast<const std::int64_t*>(args.inputs[1]));
    });
  });
}

constexpr KernelChoice kChoices[] = {{"reference", always, make, in_place_of(0)}};

}  // namespace

std::span<const KernelChoice> dropout_kernels() { return kChoices; }

}  // namespace lamina::cpu
