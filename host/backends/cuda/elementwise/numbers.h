// The instructions of maps on the registers of a thread.
#pragma once

#include "backends/cuda/elementwise/arithmetic.h"
#include "backends/cuda/elementwise/params.h"
#include "backends/cuda/elementwise/registers.h"

namespace lamina::cuda {

template <typename Word, int kElements>
class MapNumbers {
 public:
  using Registers = MapRegisters<Word, kElements>;

  // Converts x to the type of the step.
  static LAMINA_GPU_FUNCTION void cast(const GpuMapStep& step, Registers& x) {
    if (step.kind == MapKind::f32) return cast_from<float>(step.dtype, x);
    if (step.kind == MapKind::i32) return cast_from<std::int32_t>(step.dtype, x);
    if constexpr (Registers::kWide) {
      if (step.kind == MapKind::f64) return cast_from<double>(step.dtype, x);
      cast_from<std::int64_t>(step.dtype, x);
    }
  }

  // Rounds or wraps to a type that is narrower than the registers.
  static LAMINA_GPU_FUNCTION void round(DType to, Registers& x) {
    switch (to) {
      case DType::bf16:
        return round_as<gpu::bfloat16>(x);
      case DType::f16:
        return round_as<gpu::float16>(x);
      case DType::u32:
        if constexpr (Registers::kWide) cast_from<std::int64_t>(to, x);
        return;
      default:
        return cast_from<std::int32_t>(to, x);
    }
  }

  // a = op(a, b). Comparisons give an i32.
  static LAMINA_GPU_FUNCTION void compute(const GpuMapStep& step, Registers& a,
                                          const Registers& b) {
    if (step.kind == MapKind::f32) return compute_floating<float>(step.op, a, b);
    if (step.kind == MapKind::i32) return compute_integer<std::int32_t>(step.op, a, b);
    if constexpr (Registers::kWide) {
      if (step.kind == MapKind::f64) return compute_floating<double>(step.op, a, b);
      compute_integer<std::int64_t>(step.op, a, b);
    }
  }

 private:
  template <typename To, typename Register = To, typename From>
  static LAMINA_GPU_FUNCTION void cast_as(Registers& x) {
    LAMINA_GPU_UNROLL
    for (int e = 0; e < kElements; ++e)
      x.set(e, static_cast<Register>(map_cast<To>(x.template get<From>(e))));
  }
  template <typename From>
  static LAMINA_GPU_FUNCTION void cast_from(DType to, Registers& x) {
    switch (to) {
      case DType::f32:
      case DType::bf16:
      case DType::f16:
        return cast_as<float, float, From>(x);
      case DType::i32:
        return cast_as<std::int32_t, std::int32_t, From>(x);
      case DType::boolean:
        return cast_as<bool, std::int32_t, From>(x);
      case DType::u8:
        return cast_as<std::uint8_t, std::int32_t, From>(x);
      case DType::i8:
        return cast_as<std::int8_t, std::int32_t, From>(x);
      case DType::u16:
        return cast_as<std::uint16_t, std::int32_t, From>(x);
      case DType::i16:
        return cast_as<std::int16_t, std::int32_t, From>(x);
      default:
        break;
    }
    if constexpr (Registers::kWide) {
      if (to == DType::f64) return cast_as<double, double, From>(x);
      if (to == DType::u32) return cast_as<std::uint32_t, std::int64_t, From>(x);
      cast_as<std::int64_t, std::int64_t, From>(x);
    }
  }

  template <typename T>
  static LAMINA_GPU_FUNCTION void round_as(Registers& x) {
    LAMINA_GPU_UNROLL
    for (int e = 0; e < kElements; ++e)
      x.set(e, gpu::widen(gpu::narrow<T>(x.template get<float>(e))));
  }

  template <typename T, typename Compute>
  static LAMINA_GPU_FUNCTION void each(Registers& a, const Registers& b, const Compute& compute) {
    LAMINA_GPU_UNROLL
    for (int e = 0; e < kElements; ++e)
      a.set(e, compute(a.template get<T>(e), b.template get<T>(e)));
  }
  template <MapOp kOp, typename T>
  static LAMINA_GPU_FUNCTION void floating(Registers& a, const Registers& b) {
    each<T>(a, b, [](T x, T y) { return map_floating<kOp>(x, y); });
  }
  template <MapOp kOp, typename T>
  static LAMINA_GPU_FUNCTION void integer(Registers& a, const Registers& b) {
    each<T>(a, b, [](T x, T y) { return map_integer<kOp>(x, y); });
  }
  template <typename T>
  static LAMINA_GPU_FUNCTION void compare(MapOp op, Registers& a, const Registers& b) {
    each<T>(a, b,
            [op](T x, T y) { return static_cast<std::int32_t>(op == MapOp::lt ? x < y : x == y); });
  }

  template <typename T>
  static LAMINA_GPU_FUNCTION void compute_floating(MapOp op, Registers& a, const Registers& b) {
    switch (op) {
#define LAMINA_MAP_FUNCTION(name, f32, f64) \
  case MapOp::name:                         \
    return floating<MapOp::name, T>(a, b);
#include "runtime/map/functions.def"
#define LAMINA_MAP_CASE(name) \
  case MapOp::name:           \
    return floating<MapOp::name, T>(a, b)
      LAMINA_MAP_CASE(add_imm);
      LAMINA_MAP_CASE(mul_imm);
      LAMINA_MAP_CASE(add);
      LAMINA_MAP_CASE(sub);
      LAMINA_MAP_CASE(mul);
      LAMINA_MAP_CASE(div);
      LAMINA_MAP_CASE(max);
      LAMINA_MAP_CASE(min);
      LAMINA_MAP_CASE(pow);
#undef LAMINA_MAP_CASE
      default:
        return compare<T>(op, a, b);
    }
  }
  template <typename T>
  static LAMINA_GPU_FUNCTION void compute_integer(MapOp op, Registers& a, const Registers& b) {
    switch (op) {
#define LAMINA_MAP_CASE(name) \
  case MapOp::name:           \
    return integer<MapOp::name, T>(a, b)
      LAMINA_MAP_CASE(neg);
      LAMINA_MAP_CASE(abs);
      LAMINA_MAP_CASE(square);
      LAMINA_MAP_CASE(relu);
      LAMINA_MAP_CASE(add_imm);
      LAMINA_MAP_CASE(mul_imm);
      LAMINA_MAP_CASE(add);
      LAMINA_MAP_CASE(sub);
      LAMINA_MAP_CASE(mul);
      LAMINA_MAP_CASE(max);
      LAMINA_MAP_CASE(min);
      LAMINA_MAP_CASE(floordiv);
      LAMINA_MAP_CASE(bit_and);
      LAMINA_MAP_CASE(bit_or);
      LAMINA_MAP_CASE(bit_xor);
      LAMINA_MAP_CASE(shift_left);
      LAMINA_MAP_CASE(shift_right);
#undef LAMINA_MAP_CASE
      default:
        return compare<T>(op, a, b);
    }
  }
};

}  // namespace lamina::cuda
