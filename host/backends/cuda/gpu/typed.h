// Access to tensors that are f32 or bf16 (gpu/typed_address.h). Each access has a branch that all
// threads of a launch take, so kernels that are bound by memory load several elements in one call.
#pragma once

#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/gpu/typed_address.h"

namespace lamina::cuda::gpu {

class NumberReader {
 public:
  LAMINA_GPU_FUNCTION explicit NumberReader(const TypedAddress& x) {
    if (x.is_bf16)
      bf16_ = Global<const bfloat16>(x.at);
    else
      f32_ = Global<const float>(x.at);
    is_bf16_ = x.is_bf16 != 0;
  }
  LAMINA_GPU_FUNCTION explicit operator bool() const {
    return static_cast<bool>(bf16_) || static_cast<bool>(f32_);
  }
  LAMINA_GPU_FUNCTION float operator[](std::int64_t i) const {
    return is_bf16_ ? load(bf16_, i) : load(f32_, i);
  }
  // Loads elements i, i + step, ... into to[0, count), and `otherwise` into the rest of `to`.
  template <int N>
  LAMINA_GPU_FUNCTION void strided(std::int64_t i, std::int64_t step, int count, float otherwise,
                                   float (&to)[N]) const {
    if (is_bf16_)
      strided(bf16_, i, step, count, otherwise, to);
    else
      strided(f32_, i, step, count, otherwise, to);
  }

 private:
  template <typename T, int N>
  static LAMINA_GPU_FUNCTION void strided(Global<const T> x, std::int64_t i, std::int64_t step,
                                          int count, float otherwise, float (&to)[N]) {
    LAMINA_GPU_UNROLL
    for (int k = 0; k < N; ++k) to[k] = k < count ? load(x, i + k * step) : otherwise;
  }

  Global<const float> f32_;
  Global<const bfloat16> bf16_;
  bool is_bf16_;
};

class NumberWriter {
 public:
  LAMINA_GPU_FUNCTION explicit NumberWriter(const TypedAddress& x) {
    if (x.is_bf16)
      bf16_ = Global<bfloat16>(x.at);
    else
      f32_ = Global<float>(x.at);
    is_bf16_ = x.is_bf16 != 0;
  }
  LAMINA_GPU_FUNCTION explicit operator bool() const {
    return static_cast<bool>(bf16_) || static_cast<bool>(f32_);
  }
  LAMINA_GPU_FUNCTION void set(std::int64_t i, float value) const {
    if (is_bf16_)
      store(bf16_, i, value);
    else
      store(f32_, i, value);
  }

 private:
  Global<float> f32_;
  Global<bfloat16> bf16_;
  bool is_bf16_;
};

// Calls put(i, fetch(i)) for i in [0, count), shared by the threads of the block. A thread fetches
// several items before it puts them, so that several loads are under way.
template <typename Fetch, typename Put>
LAMINA_GPU_FUNCTION void fetch_then_put(int count, const Fetch& fetch, const Put& put) {
  constexpr int kItems = 4;
  for (int first = thread_index(); first < count; first += kItems * num_threads()) {
    decltype(fetch(0)) items[kItems] = {};
    LAMINA_GPU_UNROLL
    for (int k = 0; k < kItems; ++k)
      if (const int i = first + k * num_threads(); i < count) items[k] = fetch(i);
    LAMINA_GPU_UNROLL
    for (int k = 0; k < kItems; ++k)
      if (const int i = first + k * num_threads(); i < count) put(i, items[k]);
  }
}

}  // namespace lamina::cuda::gpu
