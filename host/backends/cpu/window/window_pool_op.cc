// window_pool: per window and channel a softmax over a few tokens, in f32 (f64 for f64).
#include <vector>

#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/window/window_rows.h"

namespace lamina::cpu {
namespace {

template <typename T, typename B>
struct Pool {
  using Wide = typename Number<T>::Wide;
  WindowSizes s;

  // One row: the running maximum, sum of weights and weighted values of each channel (Milakov &
  // Gimelshein 2018), so that the gates are read once.
  void row(const KernelArgs& args, std::int64_t b, std::int64_t w) const {
    auto* y = static_cast<T*>(args.outputs[0]) + (b * s.windows + w) * s.width;
    const std::int64_t end = static_cast<const std::int32_t*>(args.inputs[3])[b * s.windows + w];
    const std::int64_t start = static_cast<const std::int32_t*>(args.inputs[4])[b * s.windows + w];
    if (end < 0) {
      std::fill(y, y + s.width, Number<T>::store(Wide(0)));
      return;
    }
    constexpr std::int64_t kChannels = 64;  // at a time, on the stack
    for (std::int64_t c0 = 0; c0 < s.width; c0 += kChannels) {
      const std::int64_t count = std::min(kChannels, s.width - c0);
      Wide top[kChannels], sum[kChannels], out[kChannels];
      std::fill(top, top + count, -std::numeric_limits<Wide>::infinity());
      std::fill(sum, sum + count, Wide(0));
      std::fill(out, out + count, Wide(0));
      for_each_slot(s, end, start, [&](std::int64_t t, std::int64_t i, std::int64_t half) {
        const std::int64_t at = (b * s.tokens + t) * s.channels + half + c0;
        const T* value = static_cast<const T*>(args.inputs[0]) + at;
        const T* gate = static_cast<const T*>(args.inputs[1]) + at;
        const B* bias = static_cast<const B*>(args.inputs[2]) + i * s.channels + half + c0;
        for (std::int64_t c = 0; c < count; ++c) {
          const Wide g = Number<T>::load(gate[c]) + static_cast<Wide>(Number<B>::load(bias[c]));
          const Wide higher = std::max(top[c], g);
          const Wide shrink = std::exp(top[c] - higher), weight = std::exp(g - higher);
          top[c] = higher;
          sum[c] = sum[c] * shrink + weight;
          out[c] = out[c] * shrink + weight * Number<T>::load(value[c]);
        }
      });
      for (std::int64_t c = 0; c < count; ++c) y[c0 + c] = Number<T>::store(out[c] / sum[c]);
    }
  }
};

std::unique_ptr<Kernel> make(const NodeView& n) {
  const WindowSizes s(n);
  return with_floating(n.type(0).dtype, [&](auto value) {
    return with_floating(n.type(2).dtype, [&](auto bias) {
      const Pool<decltype(value), decltype(bias)> pool{s};
      return make_kernel([=](const KernelArgs& args) {
        parallel_ranges(s.batch * s.windows, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) pool.row(args, i / s.windows, i % s.windows);
        });
      });
    });
  });
}

constexpr KernelChoice kChoices[] = {{"online", always, make}};

}  // namespace

std::span<const KernelChoice> window_pool_kernels() { return kChoices; }

}  // namespace lamina::cpu
