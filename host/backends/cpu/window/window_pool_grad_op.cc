// window_pool_grad: weights computed again, then with p the weights of a channel and y its result
// dvalue = p dy, dgate = p dy (value - y). Windows of one sequence share tokens: a task is a
// sequence's channels.
#include <vector>

#include "backends/cpu/kernels.h"
#include "backends/cpu/window/window_rows.h"

namespace lamina::cpu {
namespace {

template <typename T, typename B>
struct PoolGrad {
  using Wide = typename Number<T>::Wide;
  WindowSizes s;

  void run(const KernelArgs& args) const {
    const auto elements = static_cast<std::size_t>(s.batch * s.tokens * s.channels);
    std::vector<Wide> dvalues(elements), dgates(elements);
    std::vector<Wide> dbias(static_cast<std::size_t>(s.ratio * s.channels));
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t w = 0; w < s.windows; ++w)
        for (std::int64_t c = 0; c < s.width; ++c) channel(args, b, w, c, dvalues, dgates, dbias);
    store<T>(dvalues, args.outputs[0]);
    store<T>(dgates, args.outputs[1]);
    if constexpr (std::is_same_v<B, double>)
      store<double>(dbias, args.outputs[2]);
    else
      store<float>(dbias, args.outputs[2]);
  }

 private:
  void channel(const KernelArgs& args, std::int64_t b, std::int64_t w, std::int64_t c,
               std::vector<Wide>& dvalues, std::vector<Wide>& dgates,
               std::vector<Wide>& dbias) const {
    const auto* values = static_cast<const T*>(args.inputs[0]);
    const auto* gates = static_cast<const T*>(args.inputs[1]);
    const auto* bias = static_cast<const B*>(args.inputs[2]);
    const std::int64_t end = static_cast<const std::int32_t*>(args.inputs[3])[b * s.windows + w];
    const std::int64_t start = static_cast<const std::int32_t*>(args.inputs[4])[b * s.windows + w];
    if (end < 0) return;
    const Wide dy =
        Number<T>::load(static_cast<const T*>(args.inputs[5])[(b * s.windows + w) * s.width + c]);
    const auto place = [&](std::int64_t t, std::int64_t half) {
      return static_cast<std::size_t>((b * s.tokens + t) * s.channels + half + c);
    };
    const auto gate = [&](std::int64_t t, std::int64_t i, std::int64_t half) {
      return Number<T>::load(gates[place(t, half)]) +
             static_cast<Wide>(Number<B>::load(bias[i * s.channels + half + c]));
    };
    Wide top = -std::numeric_limits<Wide>::infinity(), sum = 0, y = 0;
    for_each_slot(s, end, start,
                  [&](auto t, auto i, auto half) { top = std::max(top, gate(t, i, half)); });
    for_each_slot(s, end, start, [&](auto t, auto i, auto half) {
      const Wide weight = std::exp(gate(t, i, half) - top);
      sum += weight;
      y += weight * Number<T>::load(values[place(t, half)]);
    });
    y /= sum;
    for_each_slot(s, end, start, [&](auto t, auto i, auto half) {
      const Wide p = std::exp(gate(t, i, half) - top) / sum;
      const Wide dgate = p * dy * (Number<T>::load(values[place(t, half)]) - y);
      dvalues[place(t, half)] += p * dy;
      dgates[place(t, half)] += dgate;
      dbias[static_cast<std::size_t>(i * s.channels + half + c)] += dgate;
    });
  }

  template <typename Out>
  static void store(const std::vector<Wide>& from, void* to) {
    if (!to) return;
    for (std::size_t i = 0; i < from.size(); ++i)
      static_cast<Out*>(to)[i] =
          Number<Out>::store(static_cast<typename Number<Out>::Wide>(from[i]));
  }
};

std::unique_ptr<Kernel> make(const NodeView& n) {
  const WindowSizes s(n);
  return with_floating(n.type(0).dtype, [&](auto value) {
    return with_floating(n.type(2).dtype, [&](auto bias) {
      const PoolGrad<decltype(value), decltype(bias)> grad{s};
      return make_kernel([=](const KernelArgs& args) { grad.run(args); });
    });
  });
}

constexpr KernelChoice kChoices[] = {{"loop", always, make}};

}  // namespace

std::span<const KernelChoice> window_pool_grad_kernels() { return kChoices; }

}  // namespace lamina::cpu
