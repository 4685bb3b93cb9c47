// The kernels of extend_window, window_ends, window_pool and window_pool_grad.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

// Sizes of a use of window_pool.
struct WindowSizes {
  std::int64_t batch, tokens, channels;  // of values
  std::int64_t windows, width;           // of the rows; width is channels, or half of them
  std::int64_t ratio;
  bool overlap;

  explicit WindowSizes(const NodeView& n)
      : batch(n.type(0).dim(0)),
        tokens(n.type(0).dim(1)),
        channels(n.type(0).dim(2)),
        windows(n.type(3).dim(1)),
        width(n.i("overlap") ? channels / 2 : channels),
        ratio(n.i("ratio")),
        overlap(n.i("overlap") != 0) {}
};

// Calls fn(token, place in bias, first channel) for every token of the window that ends at `end`,
// and of the window before it in the document, if any. A plugin may give any ends, so tokens
// outside of the row are skipped.
template <typename Fn>
void for_each_slot(const WindowSizes& s, std::int64_t end, std::int64_t start, Fn fn) {
  const auto visit = [&](std::int64_t first, std::int64_t channel) {
    const std::int64_t past = std::min(s.ratio, s.tokens - first);
    for (std::int64_t i = std::max<std::int64_t>(0, -first); i < past; ++i)
      fn(first + i, i, channel);
  };
  const std::int64_t first = end - s.ratio + 1;
  if (s.overlap && start > 0) visit(first - s.ratio, 0);
  visit(first, s.channels - s.width);
}

// Copies token rows.
namespace extend_window_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(1);
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), kept = n.type(0).dim(1);
  const std::int64_t row_bytes = product(x.shape, 2, x.ndim()) * size_bytes(x.dtype);
  return make_kernel([=](const KernelArgs& args) {
    const auto* start = static_cast<const std::int32_t*>(args.inputs[2]);
    const auto* count = static_cast<const std::int32_t*>(args.inputs[3]);
    for (std::int64_t b = 0; b < batch; ++b) {
      // Copies row i of the old window followed by this call's tokens to `to`.
      const auto copy_row = [&](std::int64_t i, std::byte* to) {
        const auto bytes = static_cast<std::size_t>(row_bytes);
        if (i >= kept)
          std::memcpy(to, at_byte(args.inputs[1], (b * tokens + i - kept) * row_bytes), bytes);
        else if (start[b] == 0)
          std::memset(to, 0, bytes);
        else
          std::memmove(to, at_byte(args.inputs[0], (b * kept + i) * row_bytes), bytes);
      };
      for (std::int64_t i = 0; args.outputs[1] && i < kept + tokens; ++i)
        copy_row(i, at_byte(args.outputs[1], (b * (kept + tokens) + i) * row_bytes));
      // Reads ahead of the writes, so that both may be the same memory.
      for (std::int64_t i = 0; args.outputs[0] && i < kept; ++i)
        copy_row(count[b] + i, at_byte(args.outputs[0], (b * kept + i) * row_bytes));
    }
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace extend_window_op

// A walk over the positions of each row.
namespace window_ends_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const std::int64_t batch = n.type(0).dim(0), tokens = n.type(0).dim(1), ratio = n.i("ratio");
  const std::int64_t windows = divide_up(tokens, ratio);
  return make_kernel([=](const KernelArgs& args) {
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int32_t* position = static_cast<const std::int32_t*>(args.inputs[0]) + b * tokens;
      const auto row = [&](int output) -> std::int32_t* {
        auto* all = static_cast<std::int32_t*>(args.outputs[static_cast<std::size_t>(output)]);
        return all ? all + b * windows : nullptr;
      };
      std::int32_t *ends = row(0), *starts = row(1);
      std::int64_t found = 0;
      for (std::int64_t t = 0; t < tokens && found < windows; ++t) {
        const std::int64_t next = std::int64_t{position[t]} + 1;
        if (next % ratio != 0) continue;
        if (ends) ends[found] = static_cast<std::int32_t>(t);
        if (starts) starts[found] = static_cast<std::int32_t>(next - ratio);
        ++found;
      }
      if (ends) std::fill(ends + found, ends + windows, -1);
      if (starts) std::fill(starts + found, starts + windows, 0);
    }
  });
}

constexpr KernelChoice kChoices[] = {{"loop", always, make}};

}  // namespace window_ends_op

// A softmax over a few tokens per window and channel, in f32 (f64 for f64).
namespace window_pool_op {

template <typename T, typename B>
struct Pool {
  using Wide = typename Number<T>::Wide;
  WindowSizes s;

  // Computes one row: the running maximum, sum of weights and weighted values of each channel
  // (Milakov & Gimelshein 2018), so that the gates are read once.
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

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
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

}  // namespace window_pool_op

// Recomputes the weights; then with p the weights of a channel and y its result: dvalue = p dy,
// dgate = p dy (value - y). Windows of one sequence share tokens, so a task is channels of a
// sequence.
namespace window_pool_grad_op {

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

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const WindowSizes s(n);
  return with_floating(n.type(0).dtype, [&](auto value) {
    return with_floating(n.type(2).dtype, [&](auto bias) {
      const PoolGrad<decltype(value), decltype(bias)> grad{s};
      return make_kernel([=](const KernelArgs& args) { grad.run(args); });
    });
  });
}

constexpr KernelChoice kChoices[] = {{"loop", always, make}};

}  // namespace window_pool_grad_op

constexpr OpKernels kOps[] = {
    {"extend_window", extend_window_op::kChoices},
    {"window_ends", window_ends_op::kChoices},
    {"window_pool", window_pool_op::kChoices},
    {"window_pool_grad", window_pool_grad_op::kChoices},
};

}  // namespace

KernelTable window_kernels() { return kOps; }

}  // namespace lamina::cpu
