// Loads and stores of the operands of a map.
#pragma once

#include "backends/cuda/elementwise/registers.h"
#include "backends/cuda/elementwise/spaces.h"

namespace lamina::cuda {

// For elements [first, first + count) of one thread.
template <typename Word, int kElements, typename Map>
class MapOperands {
 public:
  using Registers = MapRegisters<Word, kElements>;

  LAMINA_GPU_FUNCTION explicit MapOperands(const Map& map) : map_(map) {}

  LAMINA_GPU_FUNCTION void move_to(std::int64_t first) {
    first_ = first;
    const std::int64_t rest = map_.num_elements() - first;
    count_ = rest < kElements ? static_cast<int>(rest) : kElements;
  }

  LAMINA_GPU_FUNCTION void load(const MapPlace& from, Registers& out) const {
    out.fill(0);
    switch (from.dtype) {
      case DType::f32:
        return load_as<float, float>(from, out);
      case DType::bf16:
        return load_as<gpu::bfloat16, float>(from, out);
      case DType::f16:
        return load_as<gpu::float16, float>(from, out);
      case DType::i32:
        return load_as<std::int32_t, std::int32_t>(from, out);
      case DType::u8:
      case DType::boolean:
        return load_as<std::uint8_t, std::int32_t>(from, out);
      case DType::i8:
        return load_as<std::int8_t, std::int32_t>(from, out);
      case DType::u16:
        return load_as<std::uint16_t, std::int32_t>(from, out);
      case DType::i16:
        return load_as<std::int16_t, std::int32_t>(from, out);
      default:
        break;
    }
    if constexpr (Registers::kWide) {
      if (from.dtype == DType::f64) return load_as<double, double>(from, out);
      if (from.dtype == DType::i64) return load_as<std::int64_t, std::int64_t>(from, out);
      load_as<std::uint32_t, std::int64_t>(from, out);
    }
  }
  // A result that is not wanted has no address.
  LAMINA_GPU_FUNCTION void store(const MapPlace& to, const Registers& x) const {
    if (to.address.value == 0) return;
    switch (to.dtype) {
      case DType::f32:
        return store_as<float, float>(to, x);
      case DType::bf16:
        return store_as<gpu::bfloat16, float>(to, x);
      case DType::f16:
        return store_as<gpu::float16, float>(to, x);
      case DType::i32:
        return store_as<std::int32_t, std::int32_t>(to, x);
      case DType::u8:
      case DType::boolean:
      case DType::i8:
        return store_as<std::uint8_t, std::int32_t>(to, x);
      case DType::u16:
      case DType::i16:
        return store_as<std::uint16_t, std::int32_t>(to, x);
      default:
        break;
    }
    if constexpr (Registers::kWide) {
      if (to.dtype == DType::u32) return store_as<std::uint32_t, std::int64_t>(to, x);
      store_as<std::int64_t, std::int64_t>(to, x);  // or the bits of an f64
    }
  }
  // Sets the index of each element in a pattern.
  LAMINA_GPU_FUNCTION void count(const GpuMapStep& step, Registers& out) const {
    out.fill(0);
    if (step.kind == MapKind::f32) return count_as<float>(step.operand, out);
    if (step.kind == MapKind::i32) return count_as<std::int32_t>(step.operand, out);
    if constexpr (Registers::kWide) {
      if (step.kind == MapKind::f64) return count_as<double>(step.operand, out);
      count_as<std::int64_t>(step.operand, out);
    }
  }

 private:
  // Elements `stride` apart from `offset` on, if all of them are.
  struct Run {
    std::int64_t offset, stride;
    bool even;
  };
  LAMINA_GPU_FUNCTION Run run_of(int pattern) const {
    if (pattern == kContiguous) return {first_, 1, count_ == kElements};
    std::int64_t along;
    const std::int64_t offset = map_.offset_of(first_, pattern, along);
    return {offset, map_.last_stride(pattern),
            count_ == kElements && along + kElements <= map_.last_dim()};
  }
  // Calls visit(e, offset) for the elements that exist.
  template <typename Visit>
  LAMINA_GPU_FUNCTION void for_each(int pattern, const Run& run, const Visit& visit) const {
    LAMINA_GPU_UNROLL
    for (int e = 0; e < kElements; ++e) {
      if (e >= count_) continue;
      std::int64_t along;
      visit(e, run.even || pattern == kContiguous ? run.offset + e * run.stride
                                                  : map_.offset_of(first_ + e, pattern, along));
    }
  }

  template <typename T, typename Register>
  LAMINA_GPU_FUNCTION void load_as(const MapPlace& from, Registers& out) const {
    constexpr int kCount =
        kElements * sizeof(T) <= 16 ? kElements : 16 / static_cast<int>(sizeof(T));
    const gpu::Global<const T> x(from.address);
    const Run run = run_of(from.pattern);
    const std::uint64_t at =
        from.address.value + static_cast<std::uint64_t>(run.offset) * sizeof(T);
    if (run.even && run.stride == 1 && at % (kCount * sizeof(T)) == 0) {
      LAMINA_GPU_UNROLL
      for (int v = 0; v < kElements; v += kCount) {
        const auto vector = gpu::load_vector<kCount>(x, run.offset + v);
        LAMINA_GPU_UNROLL
        for (int i = 0; i < kCount; ++i)
          out.set(v + i, static_cast<Register>(gpu::widen(vector.values[i])));
      }
      return;
    }
    for_each(from.pattern, run, [&](int e, std::int64_t offset) {
      out.set(e, static_cast<Register>(gpu::load(x, offset)));
    });
  }

  template <typename T, typename Register>
  LAMINA_GPU_FUNCTION void store_as(const MapPlace& to, const Registers& x) const {
    constexpr int kCount =
        kElements * sizeof(T) <= 16 ? kElements : 16 / static_cast<int>(sizeof(T));
    const gpu::Global<T> y(to.address);
    const std::uint64_t at = to.address.value + static_cast<std::uint64_t>(first_) * sizeof(T);
    if (count_ == kElements && at % (kCount * sizeof(T)) == 0) {
      LAMINA_GPU_UNROLL
      for (int v = 0; v < kElements; v += kCount) {
        gpu::Vector<T, kCount> vector;
        LAMINA_GPU_UNROLL
        for (int i = 0; i < kCount; ++i)
          vector.values[i] = gpu::narrow<T>(x.template get<Register>(v + i));
        gpu::store_vector(y, first_ + v, vector);
      }
      return;
    }
    LAMINA_GPU_UNROLL
    for (int e = 0; e < kElements; ++e)
      if (e < count_) y[first_ + e] = gpu::narrow<T>(x.template get<Register>(e));
  }

  template <typename Register>
  LAMINA_GPU_FUNCTION void count_as(int pattern, Registers& out) const {
    for_each(pattern, run_of(pattern),
             [&](int e, std::int64_t index) { out.set(e, static_cast<Register>(index)); });
  }

  const Map& map_;
  std::int64_t first_ = 0;
  int count_ = 0;
};

}  // namespace lamina::cuda
