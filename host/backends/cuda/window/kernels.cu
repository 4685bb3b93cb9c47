// Windows of tokens. Bound by memory: neighbouring threads have neighbouring channels, and each
// element of values and gates is read a few times, from the second time on out of the caches.
#include "backends/cuda/window/params.h"

#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/gpu/prefix.h"

namespace lamina::cuda {
namespace {

template <typename Word, int kWords>
LAMINA_GPU_FUNCTION gpu::Vector<Word, kWords> window_unit(const ExtendWindowParams& p,
                                                          std::int64_t b, std::int64_t place,
                                                          std::int64_t unit) {
  if (place >= p.kept)
    return gpu::load_vector<kWords>(
        gpu::Global<const Word>(p.x),
        ((b * p.tokens + place - p.kept) * p.row_units + unit) * kWords);
  if (gpu::Global<const std::int32_t>(p.start)[b] == 0) return {};
  return gpu::load_vector<kWords>(gpu::Global<const Word>(p.window),
                                  ((b * p.kept + place) * p.row_units + unit) * kWords);
}

template <typename Word, int kWords>
LAMINA_GPU_FUNCTION void extend_window(const ExtendWindowParams& p) {
  const std::int64_t rows = p.kept + p.tokens;
  const gpu::Global<Word> out(p.extended);
  for (std::int64_t i = gpu::first_index(); i < p.batch * rows * p.row_units;
       i += gpu::num_indices()) {
    const std::int64_t row = i / p.row_units;
    gpu::store_vector<kWords>(
        out, i * kWords, window_unit<Word, kWords>(p, row / rows, row % rows, i % p.row_units));
  }
}

// A thread moves one unit of all rows of the window. It reads ahead of its writes, so that both
// windows may be the same memory.
template <typename Word, int kWords>
LAMINA_GPU_FUNCTION void advance_window(const ExtendWindowParams& p) {
  const gpu::Global<Word> out(p.window_out);
  for (std::int64_t i = gpu::first_index(); i < p.batch * p.row_units; i += gpu::num_indices()) {
    const std::int64_t b = i / p.row_units, unit = i % p.row_units;
    const std::int64_t valid = gpu::Global<const std::int32_t>(p.count)[b];
    for (std::int64_t row = 0; row < p.kept; ++row)
      gpu::store_vector<kWords>(out, ((b * p.kept + row) * p.row_units + unit) * kWords,
                                window_unit<Word, kWords>(p, b, valid + row, unit));
  }
}

template <typename W>
LAMINA_GPU_FUNCTION W load_bias(const WindowPoolParams& p, std::int64_t i) {
  switch (p.bias_type) {
    case BiasType::f32:
      return gpu::load(gpu::Global<const float>(p.bias), i);
    case BiasType::bf16:
      return gpu::load(gpu::Global<const gpu::bfloat16>(p.bias), i);
    case BiasType::f16:
      return gpu::load(gpu::Global<const gpu::float16>(p.bias), i);
    default:
      return static_cast<W>(gpu::load(gpu::Global<const double>(p.bias), i));
  }
}

// The tokens of a half of a window: `first` to `first` + ratio - 1. Tokens outside of the row do
// not count.
struct Slots {
  std::int64_t first;
  std::int64_t begin, end;  // places in the half
  std::int64_t channel;     // of the half's first channel
};

// half 0: the window before the one that ends at `end`; half 1: that window itself.
LAMINA_GPU_FUNCTION Slots slots_of(const WindowPoolParams& p, std::int64_t end, int half) {
  Slots s{};
  s.first = end + 1 - (half == 0 ? 2 : 1) * p.ratio;
  s.begin = s.first < 0 ? -s.first : 0;
  s.end = gpu::min(p.ratio, p.tokens - s.first);
  s.channel = half == 0 ? 0 : p.channels - p.width;
  return s;
}

struct WindowPlace {
  std::int64_t end, start;
  int first_half;  // 1: it has no tokens of the window before
};

LAMINA_GPU_FUNCTION WindowPlace window_place(const WindowPoolParams& p, std::int64_t window) {
  WindowPlace out{};
  out.end = gpu::Global<const std::int32_t>(p.ends)[window];
  out.start = gpu::Global<const std::int32_t>(p.starts)[window];
  out.first_half = p.overlap && out.start > 0 ? 0 : 1;
  return out;
}

template <typename T>
struct Pooled {
  gpu::Wide<T> top, sum, weighted;
};

// The running maximum, sum of weights and weighted values of a channel of a window (Milakov &
// Gimelshein 2018), so that gates and values are read once.
template <typename T>
LAMINA_GPU_FUNCTION Pooled<T> pool_channel(const WindowPoolParams& p, std::int64_t b,
                                           const WindowPlace& place, std::int64_t c) {
  using W = gpu::Wide<T>;
  const gpu::Global<const T> values(p.values), gates(p.gates);
  Pooled<T> out{-static_cast<W>(gpu::infinity()), 0, 0};
  for (int half = place.first_half; half < 2; ++half) {
    const Slots s = slots_of(p, place.end, half);
    for (std::int64_t i = s.begin; i < s.end; ++i) {
      const std::int64_t at = (b * p.tokens + s.first + i) * p.channels + s.channel + c;
      const W gate = gpu::load(gates, at) + load_bias<W>(p, i * p.channels + s.channel + c);
      const W higher = gpu::max(out.top, gate);
      const W shrink = gpu::exp(out.top - higher), weight = gpu::exp(gate - higher);
      out.top = higher;
      out.sum = out.sum * shrink + weight;
      out.weighted = out.weighted * shrink + weight * gpu::load(values, at);
    }
  }
  return out;
}

template <typename T>
LAMINA_GPU_FUNCTION void window_pool(const WindowPoolParams& p) {
  using W = gpu::Wide<T>;
  const gpu::Global<T> y(p.y);
  for (std::int64_t i = gpu::first_index(); i < p.batch * p.windows * p.width;
       i += gpu::num_indices()) {
    const std::int64_t window = i / p.width;
    const WindowPlace place = window_place(p, window);
    W result = 0;
    if (place.end >= 0) {
      const Pooled<T> pooled = pool_channel<T>(p, window / p.windows, place, i % p.width);
      result = pooled.weighted / pooled.sum;
    }
    gpu::store(y, i, result);
  }
}

template <typename T>
LAMINA_GPU_FUNCTION void window_pool_sums(const WindowPoolGradParams& p) {
  using W = gpu::Wide<T>;
  const WindowPoolParams& pool = p.pool;
  const gpu::Global<W> top(p.top), scale(p.scale), mean(p.mean);
  for (std::int64_t i = gpu::first_index(); i < pool.batch * pool.windows * pool.width;
       i += gpu::num_indices()) {
    const std::int64_t window = i / pool.width;
    const WindowPlace place = window_place(pool, window);
    if (place.end < 0) continue;
    const Pooled<T> pooled = pool_channel<T>(pool, window / pool.windows, place, i % pool.width);
    top[i] = pooled.top;
    scale[i] = 1 / pooled.sum;
    mean[i] = pooled.weighted / pooled.sum;
  }
}

template <typename W>
struct PoolGradient {
  W value, gate;
};

// The gradients of a token's value and gate in a channel, through one window: with p the weight and
// y the result, p dy and p dy (value - y).
template <typename T>
LAMINA_GPU_FUNCTION PoolGradient<gpu::Wide<T>> pool_gradient(const WindowPoolGradParams& p,
                                                             std::int64_t window, std::int64_t c,
                                                             std::int64_t at, gpu::Wide<T> bias) {
  using W = gpu::Wide<T>;
  const std::int64_t i = window * p.pool.width + c;
  const W gate = gpu::load(gpu::Global<const T>(p.pool.gates), at) + bias;
  const W weight =
      gpu::exp(gate - gpu::Global<const W>(p.top)[i]) * gpu::Global<const W>(p.scale)[i];
  const W value = gpu::load(gpu::Global<const T>(p.pool.values), at);
  const W dvalue = weight * gpu::load(gpu::Global<const T>(p.dy), i);
  return {dvalue, dvalue * (value - gpu::Global<const W>(p.mean)[i])};
}

// Returns the first window of a row of rising ends that ends at `token` or later.
LAMINA_GPU_FUNCTION std::int64_t first_window(gpu::Global<const std::int32_t> ends,
                                              std::int64_t windows, std::int64_t token) {
  std::int64_t first = 0;
  while (windows > 0) {
    const std::int64_t half = windows / 2, end = ends[first + half];
    if (end >= 0 && end < token) {
      first += half + 1;
      windows -= half + 1;
    } else {
      windows = half;
    }
  }
  return first;
}

// Adds the gradients of a token's value and gate in `channel` over the windows that contain it, in
// order. With rising ends, these windows are next to each other.
template <typename T>
LAMINA_GPU_FUNCTION PoolGradient<gpu::Wide<T>> token_gradient(const WindowPoolGradParams& p,
                                                              std::int64_t b, std::int64_t token,
                                                              std::int64_t channel, bool rising) {
  using W = gpu::Wide<T>;
  const WindowPoolParams& pool = p.pool;
  const int half = pool.overlap && channel < pool.width ? 0 : 1;
  const std::int64_t c = half == 0 || !pool.overlap ? channel : channel - pool.width;
  const std::int64_t at = (b * pool.tokens + token) * pool.channels + channel;
  // The token's window ends `ahead` to `ahead` + ratio - 1 tokens later.
  const std::int64_t ahead = half == 0 ? pool.ratio : 0;
  const gpu::Global<const std::int32_t> ends =
      gpu::Global<const std::int32_t>(pool.ends) + b * pool.windows;
  PoolGradient<W> sum{};
  for (std::int64_t w = rising ? first_window(ends, pool.windows, token + ahead) : 0;
       w < pool.windows; ++w) {
    const std::int64_t window = b * pool.windows + w;
    const WindowPlace place = window_place(pool, window);
    const std::int64_t i = pool.ratio - 1 - (place.end - ahead - token);  // place in the half
    if (rising && (place.end < 0 || i < 0)) break;
    if (place.end < 0 || i < 0 || i >= pool.ratio || half < place.first_half) continue;
    const W bias = load_bias<W>(pool, i * pool.channels + channel);
    const PoolGradient<W> one = pool_gradient<T>(p, window, c, at, bias);
    sum.value += one.value;
    sum.gate += one.gate;
  }
  return sum;
}

template <typename T>
LAMINA_GPU_FUNCTION void window_pool_grad(const WindowPoolGradParams& p) {
  const WindowPoolParams& pool = p.pool;
  const gpu::Global<T> dvalues(p.dvalues), dgates(p.dgates);
  const gpu::Global<const std::int32_t> rising(p.rising);
  for (std::int64_t i = gpu::first_index(); i < pool.batch * pool.tokens * pool.channels;
       i += gpu::num_indices()) {
    const std::int64_t row = i / pool.channels, b = row / pool.tokens;
    const PoolGradient<gpu::Wide<T>> sum =
        token_gradient<T>(p, b, row % pool.tokens, i % pool.channels, rising[b] != 0);
    if (dvalues) gpu::store(dvalues, i, sum.value);
    if (dgates) gpu::store(dgates, i, sum.gate);
  }
}

// Sums of the gradient of the bias over `part` windows, for each element of the bias.
template <typename T>
LAMINA_GPU_FUNCTION void window_bias_sums(const WindowPoolGradParams& p) {
  using W = gpu::Wide<T>;
  const WindowPoolParams& pool = p.pool;
  const gpu::Global<W> partial(p.partial_dbias);
  const std::int64_t elements = pool.ratio * pool.channels, part = gpu::block_index_y();
  const std::int64_t past = gpu::min((part + 1) * p.part, pool.batch * pool.windows);
  for (std::int64_t e = gpu::first_index(); e < elements; e += gpu::num_indices()) {
    const std::int64_t i = e / pool.channels, channel = e % pool.channels;
    const int half = pool.overlap && channel < pool.width ? 0 : 1;
    const std::int64_t c = half == 0 || !pool.overlap ? channel : channel - pool.width;
    const W bias = load_bias<W>(pool, e);
    W sum = 0;
    for (std::int64_t window = part * p.part; window < past; ++window) {
      const WindowPlace place = window_place(pool, window);
      if (place.end < 0 || half < place.first_half) continue;
      const Slots s = slots_of(pool, place.end, half);
      if (i < s.begin || i >= s.end) continue;
      const std::int64_t token = window / pool.windows * pool.tokens + s.first + i;
      sum += pool_gradient<T>(p, window, c, token * pool.channels + channel, bias).gate;
    }
    partial[part * elements + e] = sum;
  }
}

template <typename W>
LAMINA_GPU_FUNCTION void window_bias_total(const WindowPoolGradParams& p) {
  const gpu::Global<const W> partial(p.partial_dbias);
  const std::int64_t elements = p.pool.ratio * p.pool.channels;
  for (std::int64_t e = gpu::first_index(); e < elements; e += gpu::num_indices()) {
    W sum = 0;
    for (std::int64_t part = 0; part < p.num_parts; ++part) sum += partial[part * elements + e];
    if (p.dbias_is_f64)
      gpu::Global<double>(p.dbias)[e] = sum;
    else
      gpu::Global<float>(p.dbias)[e] = static_cast<float>(sum);
  }
}

}  // namespace

#define LAMINA_EXTEND_KERNELS(unit, Word, kWords)                                                 \
  LAMINA_GPU_KERNEL(extend_window_##unit, ExtendWindowParams) { extend_window<Word, kWords>(p); } \
  LAMINA_GPU_KERNEL(extend_window_advance_##unit, ExtendWindowParams) {                           \
    advance_window<Word, kWords>(p);                                                              \
  }
LAMINA_EXTEND_KERNELS(16, std::uint32_t, 4)
LAMINA_EXTEND_KERNELS(8, std::uint32_t, 2)
LAMINA_EXTEND_KERNELS(4, std::uint32_t, 1)
LAMINA_EXTEND_KERNELS(2, std::uint16_t, 1)
LAMINA_EXTEND_KERNELS(1, std::uint8_t, 1)
#undef LAMINA_EXTEND_KERNELS

// A block walks over the positions of one row.
LAMINA_GPU_KERNEL_BOUNDS(window_ends, WindowEndsParams, 256, 1) {
  LAMINA_GPU_SHARED(int, scratch, 8);
  const std::int64_t row = gpu::block_index();
  const gpu::Global<const std::int32_t> positions =
      gpu::Global<const std::int32_t>(p.positions) + row * p.tokens;
  const gpu::Global<std::int32_t> ends(p.ends), starts(p.starts);
  std::int64_t found = 0;
  for (std::int64_t first = 0; first < p.tokens; first += gpu::num_threads()) {
    const std::int64_t t = first + gpu::thread_index();
    const std::int64_t next = t < p.tokens ? std::int64_t{positions[t]} + 1 : 1;
    const bool ends_here = t < p.tokens && next % p.ratio == 0;
    const gpu::PrefixSum<int> sum = gpu::block_prefix_sum(ends_here ? 1 : 0, scratch);
    const std::int64_t window = found + sum.before;
    if (ends_here && window < p.windows) {
      if (ends) ends[row * p.windows + window] = static_cast<std::int32_t>(t);
      if (starts) starts[row * p.windows + window] = static_cast<std::int32_t>(next - p.ratio);
    }
    found += sum.total;
  }
  for (std::int64_t w = found + gpu::thread_index(); w < p.windows; w += gpu::num_threads()) {
    if (ends) ends[row * p.windows + w] = -1;
    if (starts) starts[row * p.windows + w] = 0;
  }
}

// A block checks the windows of one row.
LAMINA_GPU_KERNEL_BOUNDS(window_rising, WindowPoolGradParams, 256, 1) {
  LAMINA_GPU_SHARED(int, scratch, 8);
  const std::int64_t row = gpu::block_index();
  const gpu::Global<const std::int32_t> ends =
      gpu::Global<const std::int32_t>(p.pool.ends) + row * p.pool.windows;
  int falls = 0;
  for (std::int64_t w = 1 + gpu::thread_index(); w < p.pool.windows; w += gpu::num_threads())
    if (ends[w] >= 0 && (ends[w - 1] < 0 || ends[w] <= ends[w - 1])) ++falls;
  falls = gpu::block_prefix_sum(falls, scratch).total;
  if (gpu::thread_index() == 0) gpu::Global<std::int32_t>(p.rising)[row] = falls == 0 ? 1 : 0;
}

#define LAMINA_POOL_KERNELS(type, T)                                                           \
  LAMINA_GPU_KERNEL(window_pool_##type, WindowPoolParams) { window_pool<T>(p); }               \
  LAMINA_GPU_KERNEL(window_pool_sums_##type, WindowPoolGradParams) { window_pool_sums<T>(p); } \
  LAMINA_GPU_KERNEL(window_pool_grad_##type, WindowPoolGradParams) { window_pool_grad<T>(p); } \
  LAMINA_GPU_KERNEL(window_bias_sums_##type, WindowPoolGradParams) { window_bias_sums<T>(p); } \
  LAMINA_GPU_KERNEL(window_bias_total_##type, WindowPoolGradParams) {                          \
    window_bias_total<gpu::Wide<T>>(p);                                                        \
  }
LAMINA_POOL_KERNELS(f32, float)
LAMINA_POOL_KERNELS(bf16, gpu::bfloat16)
LAMINA_POOL_KERNELS(f16, gpu::float16)
LAMINA_POOL_KERNELS(f64, double)
#undef LAMINA_POOL_KERNELS

}  // namespace lamina::cuda
