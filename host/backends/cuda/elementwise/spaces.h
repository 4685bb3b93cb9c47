// The steps and the index space of a map, as the interpreter reads them from parameters: of a map
// alone, and of one tensor of a group.
#pragma once

#include "backends/cuda/elementwise/params.h"
#include "backends/cuda/gpu/divide.h"

namespace lamina::cuda {

class WholeMap {
 public:
  LAMINA_GPU_FUNCTION explicit WholeMap(const MapParams& p) : p_(p) {}

  LAMINA_GPU_FUNCTION int num_steps() const { return p_.num_steps; }
  LAMINA_GPU_FUNCTION const GpuMapStep& step(int s) const { return p_.steps[s]; }
  LAMINA_GPU_FUNCTION const MapPlace& operand(int i) const { return p_.operands[i]; }
  LAMINA_GPU_FUNCTION std::int64_t num_elements() const { return p_.num_elements; }

  // Returns the offset of an element in a pattern, and its index along the last dim.
  LAMINA_GPU_FUNCTION std::int64_t offset_of(std::int64_t index, int pattern,
                                             std::int64_t& along) const {
    std::int64_t offset = 0;
    along = index;
    for (int d = p_.ndim - 1; d > 0; --d) {
      std::int64_t rest;
      index = gpu::divide(index, p_.dims[d], rest);
      if (d == p_.ndim - 1) along = rest;
      offset += rest * p_.strides[pattern][d];
    }
    return offset + index * p_.strides[pattern][0];
  }
  LAMINA_GPU_FUNCTION std::int64_t last_stride(int pattern) const {
    return p_.strides[pattern][p_.ndim - 1];
  }
  LAMINA_GPU_FUNCTION std::int64_t last_dim() const { return p_.dims[p_.ndim - 1].by; }

 private:
  const MapParams& p_;
};

// A pattern is the number of its operand.
class MapOfGroup {
 public:
  LAMINA_GPU_FUNCTION MapOfGroup(const MapGroupParams& p, int tensor)
      : p_(p), words_(p.words + p.num_steps * kWordsOfStep + tensor * p.words_per_tensor) {}

  LAMINA_GPU_FUNCTION int num_steps() const { return p_.num_steps; }
  LAMINA_GPU_FUNCTION GpuMapStep step(int s) const {
    return from_words<GpuMapStep>(p_.words + s * kWordsOfStep);
  }
  LAMINA_GPU_FUNCTION MapPlace operand(int i) const {
    const MapGroupOperand& of = p_.operands[i];
    return {.address = {words_[1 + i]},
            .dtype = of.dtype,
            .pattern = of.is_contiguous ? kContiguous : static_cast<std::uint8_t>(i)};
  }
  LAMINA_GPU_FUNCTION std::int64_t num_elements() const {
    return static_cast<std::int64_t>(words_[0]);
  }

  LAMINA_GPU_FUNCTION std::int64_t offset_of(std::int64_t index, int pattern,
                                             std::int64_t& along) const {
    const int dims = p_.operands[pattern].dims;
    std::int64_t offset = 0, stride = 1;
    along = index;
    for (int d = p_.ndim - 1; d > 0; --d) {
      const gpu::Divisor dim = divisor(d);
      std::int64_t rest;
      index = gpu::divide(index, dim, rest);
      if (d == p_.ndim - 1) along = rest;
      if ((dims >> d & 1) == 0) continue;
      offset += rest * stride;
      stride *= dim.by;
    }
    return (dims & 1) != 0 ? offset + index * stride : offset;
  }
  LAMINA_GPU_FUNCTION std::int64_t last_stride(int pattern) const {
    return p_.operands[pattern].dims >> (p_.ndim - 1) & 1;
  }
  LAMINA_GPU_FUNCTION std::int64_t last_dim() const {
    return p_.ndim > 1 ? divisor(p_.ndim - 1).by : num_elements();
  }

 private:
  template <typename T>
  LAMINA_GPU_FUNCTION static T from_words(const std::uint64_t* from) {
    struct {
      std::uint64_t word[sizeof(T) / sizeof(std::uint64_t)];
    } words;
    LAMINA_GPU_UNROLL
    for (std::size_t i = 0; i < sizeof(T) / sizeof(std::uint64_t); ++i) words.word[i] = from[i];
    return __builtin_bit_cast(T, words);
  }
  LAMINA_GPU_FUNCTION gpu::Divisor divisor(int d) const {
    return from_words<gpu::Divisor>(words_ + 1 + p_.num_operands + d * kWordsOfDivisor);
  }

  const MapGroupParams& p_;
  const std::uint64_t* words_;
};

}  // namespace lamina::cuda
