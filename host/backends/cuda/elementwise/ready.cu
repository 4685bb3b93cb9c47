// Kernels of ready-made maps and of conversions. Bound by memory: a thread moves 16 bytes of each
// operand at a time, and enough blocks run to have many such loads under way.
#include "backends/cuda/elementwise/arithmetic.h"
#include "backends/cuda/elementwise/params.h"
#include "backends/cuda/elementwise/ready.h"
#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda {
namespace {

// The values of one thread's elements; step K is known to the compiler.
template <typename T, const ReadyMap& kMap>
class ReadyValues {
 public:
  static constexpr int kElements = 16 / static_cast<int>(sizeof(T));

  LAMINA_GPU_FUNCTION explicit ReadyValues(const ReadyParams& p) : p_(p) {}

  LAMINA_GPU_FUNCTION void run(std::int64_t first, int count) {
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kMap.num_inputs; ++i) load(i, first, count);
    step<0>();
    store<0>(first, count);
  }

 private:
  LAMINA_GPU_FUNCTION void load(int input, std::int64_t first, int count) {
    const gpu::Global<const T> x(p_.operands[input]);
    if (count == kElements) {
      const auto vector = gpu::load_vector<kElements>(x, first);
      LAMINA_GPU_UNROLL
      for (int e = 0; e < kElements; ++e) values_[input][e] = gpu::widen(vector.values[e]);
    } else {
      LAMINA_GPU_UNROLL
      for (int e = 0; e < kElements; ++e)
        values_[input][e] = e < count ? gpu::load(x, first + e) : 0.0f;
    }
  }

  template <int K>
  LAMINA_GPU_FUNCTION void step() {
    if constexpr (K < kMap.num_steps) {
      constexpr MapOp kOp = kMap.steps[K].op;
      constexpr int kA = kMap.steps[K].a, kB = kMap.steps[K].b;
      constexpr bool kRounds = kMap.steps[K].rounds && !std::is_same_v<T, float>;
      LAMINA_GPU_UNROLL
      for (int e = 0; e < kElements; ++e) {
        float b = p_.numbers[K];
        if constexpr (kB >= 0) b = values_[kB][e];
        const float y = map_floating<kOp>(values_[kA][e], b);
        values_[kMap.num_inputs + K][e] = kRounds ? gpu::widen(gpu::narrow<T>(y)) : y;
      }
      step<K + 1>();
    }
  }

  template <int kOutput>
  LAMINA_GPU_FUNCTION void store(std::int64_t first, int count) const {
    if constexpr (kOutput < kMap.num_outputs) {
      constexpr int kValue = kMap.outputs[kOutput];
      const gpu::Address to = p_.operands[kMap.num_inputs + kOutput];
      if (to.value != 0) write(gpu::Global<T>(to), values_[kValue], first, count);
      store<kOutput + 1>(first, count);
    }
  }
  static LAMINA_GPU_FUNCTION void write(gpu::Global<T> y, const float (&x)[kElements],
                                        std::int64_t first, int count) {
    if (count == kElements) {
      gpu::Vector<T, kElements> vector;
      LAMINA_GPU_UNROLL
      for (int e = 0; e < kElements; ++e) vector.values[e] = gpu::narrow<T>(x[e]);
      gpu::store_vector(y, first, vector);
    } else {
      LAMINA_GPU_UNROLL
      for (int e = 0; e < kElements; ++e)
        if (e < count) gpu::store(y, first + e, x[e]);
    }
  }

  const ReadyParams& p_;
  float values_[kMap.num_inputs + kMap.num_steps][kElements];
};

// Calls run(first, count) for the elements of this thread, `kElements` at a time.
template <int kElements, typename Run>
LAMINA_GPU_FUNCTION void for_elements(std::int64_t num_elements, const Run& run) {
  for (std::int64_t first = gpu::first_index() * kElements; first < num_elements;
       first += gpu::num_indices() * kElements) {
    const std::int64_t rest = num_elements - first;
    run(first, rest < kElements ? static_cast<int>(rest) : kElements);
  }
}

template <typename T, const ReadyMap& kMap>
LAMINA_GPU_FUNCTION void run_ready(const ReadyParams& p) {
  for_elements<ReadyValues<T, kMap>::kElements>(p.num_elements, [&](std::int64_t first, int count) {
    ReadyValues<T, kMap>(p).run(first, count);
  });
}

template <typename From, typename To>
LAMINA_GPU_FUNCTION void cast_all(const ReadyParams& p) {
  constexpr int kElements = 8, kLoaded = 16 / sizeof(From) < 8 ? 4 : 8,
                kStored = 16 / sizeof(To) < 8 ? 4 : 8;
  const gpu::Global<const From> x(p.operands[0]);
  const gpu::Global<To> y(p.operands[1]);
  for_elements<kElements>(p.num_elements, [&](std::int64_t first, int count) {
    if (count < kElements) {
      for (int e = 0; e < count; ++e) gpu::store(y, first + e, gpu::load(x, first + e));
      return;
    }
    float values[kElements];
    LAMINA_GPU_UNROLL
    for (int v = 0; v < kElements; v += kLoaded) {
      const auto vector = gpu::load_vector<kLoaded>(x, first + v);
      LAMINA_GPU_UNROLL
      for (int e = 0; e < kLoaded; ++e) values[v + e] = gpu::widen(vector.values[e]);
    }
    LAMINA_GPU_UNROLL
    for (int v = 0; v < kElements; v += kStored) {
      gpu::Vector<To, kStored> vector;
      LAMINA_GPU_UNROLL
      for (int e = 0; e < kStored; ++e) vector.values[e] = gpu::narrow<To>(values[v + e]);
      gpu::store_vector(y, first + v, vector);
    }
  });
}

}  // namespace

#define LAMINA_F32_KERNEL(name, map) \
  LAMINA_GPU_KERNEL_BOUNDS(ready_##name##_f32, ReadyParams, 256, 2) { run_ready<float, map>(p); }
#define LAMINA_BF16_KERNEL(name, map)                                  \
  LAMINA_GPU_KERNEL_BOUNDS(ready_##name##_bf16, ReadyParams, 256, 2) { \
    run_ready<gpu::bfloat16, map>(p);                                  \
  }
LAMINA_READY_MAPS(LAMINA_F32_KERNEL)
LAMINA_READY_MAPS(LAMINA_BF16_KERNEL)
LAMINA_READY_BF16_MAPS(LAMINA_BF16_KERNEL)

#define LAMINA_CAST_KERNEL(from, From, to, To) \
  LAMINA_GPU_KERNEL_BOUNDS(cast_##from##_##to, ReadyParams, 256, 2) { cast_all<From, To>(p); }
LAMINA_READY_CASTS(LAMINA_CAST_KERNEL)

}  // namespace lamina::cuda
