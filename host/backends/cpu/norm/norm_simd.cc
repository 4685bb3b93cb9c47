// Norms for one instruction set.
#include "backends/cpu/norm/norm.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

// Four running sums, so that additions of one row do not wait for each other.
struct Sums {
  Float part[4] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};
  float total() const { return sum_lanes((part[0] + part[1]) + (part[2] + part[3])); }
};

// Calls body(i, count, k) over a row; k = 0 1 2 3 0 1 ... is the running sum to add to.
template <typename Body>
LAMINA_SIMD void for_row(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    body(i, kLanes, 0);
    body(i + kLanes, kLanes, 1);
    body(i + 2 * kLanes, kLanes, 2);
    body(i + 3 * kLanes, kLanes, 3);
  }
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes, 0);
  if (i < n) body(i, static_cast<int>(n - i), 1);
}

float inverse_root(float x) { return 1.0f / __builtin_sqrtf(x); }

// Returns offset + weight at i; 1 without a weight.
template <typename W>
LAMINA_SIMD Float factor(const W* weight, float offset, std::int64_t i, int count) {
  return weight ? load_some(weight + i, count) + splat(offset) : splat(1.0f);
}

template <typename T, typename W>
void rms_forward(const RmsNormForward& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = p.width;
  const W* weight = static_cast<const W*>(p.weight);
  const float share = 1.0f / static_cast<float>(n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * n;
    T* y = static_cast<T*>(p.y) + row * n;
    Sums squares;
    if (p.residual != nullptr) {
      const T* residual = static_cast<const T*>(p.residual) + row * n;
      T* sum = static_cast<T*>(p.sum) + row * n;
      for_row(n, [&](std::int64_t i, int count, int k) {
        const Float h = rounded_to<T>(load_some(x + i, count) + load_some(residual + i, count));
        store_some(sum + i, h, count);
        squares.part[k] = fma(h, h, squares.part[k]);
      });
      x = sum;
    } else {
      for_row(n, [&](std::int64_t i, int count, int k) {
        const Float h = load_some(x + i, count);
        squares.part[k] = fma(h, h, squares.part[k]);
      });
    }
    const Float scale = splat(inverse_root(squares.total() * share + p.eps));
    for_lanes(n, [&](std::int64_t i, int count) {
      store_some(y + i, load_some(x + i, count) * scale * factor(weight, p.offset, i, count),
                 count);
    });
  }
}

template <typename T, typename W>
void rms_backward(const RmsNormBackward& p, std::int64_t begin, std::int64_t end, float* dweight) {
  const std::int64_t n = p.width;
  const W* weight = static_cast<const W*>(p.weight);
  const float share = 1.0f / static_cast<float>(n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * n;
    const T* dy = static_cast<const T*>(p.dy) + row * n;
    T* dx = static_cast<T*>(p.dx) + row * n;
    Sums squares, products;
    for_row(n, [&](std::int64_t i, int count, int k) {
      const Float h = load_some(x + i, count);
      const Float g = load_some(dy + i, count) * factor(weight, p.offset, i, count);
      squares.part[k] = fma(h, h, squares.part[k]);
      products.part[k] = fma(g, h, products.part[k]);
    });
    // dx = s (g - h s^2 share sum(g h)), with g = dy * weight.
    const float s = inverse_root(squares.total() * share + p.eps);
    const Float scale = splat(s);
    const Float bend = splat(-s * s * share * products.total());
    for_lanes(n, [&](std::int64_t i, int count) {
      const Float h = load_some(x + i, count);
      const Float d = load_some(dy + i, count);
      if (dweight != nullptr) {
        store_some(dweight + i, fma(d, h * scale, load_some(dweight + i, count)), count);
      }
      store_some(dx + i, fma(h, bend, d * factor(weight, p.offset, i, count)) * scale, count);
    });
  }
}

struct Statistics {
  float mean, scale;
};

template <typename T>
LAMINA_SIMD Statistics statistics(const T* x, std::int64_t n, float eps) {
  Sums sums, squares;
  for_row(n, [&](std::int64_t i, int count, int k) {
    sums.part[k] = sums.part[k] + load_some(x + i, count);
  });
  const float mean = sums.total() / static_cast<float>(n);
  // In a short last step only `count` lanes are elements; the others must not count as -mean.
  for_row(n, [&](std::int64_t i, int count, int k) {
    const Float d = load_some(x + i, count) - splat(mean);
    const Float counted =
        count == kLanes ? d : select(lane_numbers() < splat<Int>(count), d, splat(0.0f));
    squares.part[k] = fma(counted, counted, squares.part[k]);
  });
  return {mean, inverse_root(squares.total() / static_cast<float>(n) + eps)};
}

template <typename T, typename W>
void layer_forward(const LayerNormForward& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = p.width;
  const W* weight = static_cast<const W*>(p.weight);
  const W* bias = static_cast<const W*>(p.bias);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * n;
    T* y = static_cast<T*>(p.y) + row * n;
    const Statistics s = statistics(x, n, p.eps);
    for_lanes(n, [&](std::int64_t i, int count) {
      const Float normalised = (load_some(x + i, count) - splat(s.mean)) * splat(s.scale);
      Float result = normalised * factor(weight, p.offset, i, count);
      if (bias != nullptr) result = result + load_some(bias + i, count);
      store_some(y + i, result, count);
    });
  }
}

template <typename T, typename W>
void layer_backward(const LayerNormBackward& p, std::int64_t begin, std::int64_t end,
                    float* dweight, float* dbias) {
  const std::int64_t n = p.width;
  const float share = 1.0f / static_cast<float>(n);
  const W* weight = static_cast<const W*>(p.weight);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * n;
    const T* dy = static_cast<const T*>(p.dy) + row * n;
    T* dx = static_cast<T*>(p.dx) + row * n;
    const Statistics s = statistics(x, n, p.eps);
    const Float mean = splat(s.mean), scale = splat(s.scale);
    Sums gradients, products;
    for_row(n, [&](std::int64_t i, int count, int k) {
      const Float normalised = (load_some(x + i, count) - mean) * scale;
      const Float g = load_some(dy + i, count) * factor(weight, p.offset, i, count);
      gradients.part[k] = gradients.part[k] + g;
      products.part[k] = fma(g, normalised, products.part[k]);
    });
    const Float shift = splat(gradients.total() * share);
    const Float bend = splat(-products.total() * share);
    for_lanes(n, [&](std::int64_t i, int count) {
      const Float normalised = (load_some(x + i, count) - mean) * scale;
      const Float d = load_some(dy + i, count);
      if (dweight != nullptr)
        store_some(dweight + i, fma(d, normalised, load_some(dweight + i, count)), count);
      if (dbias != nullptr) store_some(dbias + i, d + load_some(dbias + i, count), count);
      const Float g = d * factor(weight, p.offset, i, count);
      store_some(dx + i, fma(normalised, bend, g - shift) * scale, count);
    });
  }
}

void add_up(float* to, const float* from, std::int64_t stride, std::int64_t num_parts,
            std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, int count) {
    Float sum = load_some(from + i, count);
    for (std::int64_t k = 1; k < num_parts; ++k)
      sum = sum + load_some(from + k * stride + i, count);
    store_some(to + i, sum, count);
  });
}

// Calls function<T, W> for the dtypes of p.
#define LAMINA_NORM_BY_DTYPE(function, p, ...)                                       \
  if (p.dtype == DType::f32)                                                         \
    return p.weight_dtype == DType::f32 ? function<float, float>(p, __VA_ARGS__)     \
                                        : function<float, bfloat16>(p, __VA_ARGS__); \
  return p.weight_dtype == DType::f32 ? function<bfloat16, float>(p, __VA_ARGS__)    \
                                      : function<bfloat16, bfloat16>(p, __VA_ARGS__)

constexpr NormFunctions kFunctions = {
    .rms_forward = [](const RmsNormForward& p, std::int64_t begin,
                      std::int64_t end) { LAMINA_NORM_BY_DTYPE(rms_forward, p, begin, end); },
    .rms_backward =
        [](const RmsNormBackward& p, std::int64_t begin, std::int64_t end, float* dweight) {
          LAMINA_NORM_BY_DTYPE(rms_backward, p, begin, end, dweight);
        },
    .layer_forward = [](const LayerNormForward& p, std::int64_t begin,
                        std::int64_t end) { LAMINA_NORM_BY_DTYPE(layer_forward, p, begin, end); },
    .layer_backward =
        [](const LayerNormBackward& p, std::int64_t begin, std::int64_t end, float* dweight,
           float* dbias) { LAMINA_NORM_BY_DTYPE(layer_backward, p, begin, end, dweight, dbias); },
    .add_up = add_up,
};
#undef LAMINA_NORM_BY_DTYPE

}  // namespace

constinit const NormFunctions NormFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
