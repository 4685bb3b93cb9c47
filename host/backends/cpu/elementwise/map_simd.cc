// The f32 instructions of maps and their conversions, for one instruction set.
#include "backends/cpu/elementwise/map_compiled.h"
#include "backends/cpu/simd/math.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

// Registers hold f32. A bf16 tile in memory may replace one, as source or as destination.
template <typename T = float>
LAMINA_SIMD Float get(const void* src, std::int64_t i) {
  return load(static_cast<const T*>(src) + i);
}
template <bool kRound, typename T = float>
LAMINA_SIMD void put(void* dst, std::int64_t i, Float y) {
  store(static_cast<T*>(dst) + i, kRound ? round_to_bf16(y) : y);
}

template <auto kOp, bool kRound, typename A, typename D>
void run_unary(void* dst, const void* const* src, std::int64_t n, const MapImmediate&) {
  for (std::int64_t i = 0; i < n; i += kLanes) put<kRound, D>(dst, i, kOp(get<A>(src[0], i)));
}
template <auto kOp, bool kRound, typename A, typename D>
void run_immediate(void* dst, const void* const* src, std::int64_t n, const MapImmediate& imm) {
  const Float value = splat(static_cast<float>(imm.value));
  for (std::int64_t i = 0; i < n; i += kLanes)
    put<kRound, D>(dst, i, kOp(get<A>(src[0], i), value));
}
template <auto kOp, bool kRound, typename A, typename B, typename D>
void run_binary(void* dst, const void* const* src, std::int64_t n, const MapImmediate&) {
  for (std::int64_t i = 0; i < n; i += kLanes)
    put<kRound, D>(dst, i, kOp(get<A>(src[0], i), get<B>(src[1], i)));
}
template <auto kOp>
void run_compare(void* dst, const void* const* src, std::int64_t n, const MapImmediate&) {
  for (std::int64_t i = 0; i < n; i += kLanes)
    store_raw(static_cast<std::int32_t*>(dst) + i,
              kOp(get(src[0], i), get(src[1], i)) & splat<Int>(1));
}
template <bool kRound>
void run_select(void* dst, const void* const* src, std::int64_t n, const MapImmediate&) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const Int c = load_raw<Int>(static_cast<const std::int32_t*>(src[0]) + i);
    put<kRound>(dst, i, select(c != splat<Int>(0), get(src[1], i), get(src[2], i)));
  }
}
template <bool kRound>
void run_constant(void* dst, const void* const*, std::int64_t n, const MapImmediate& imm) {
  for (std::int64_t i = 0; i < n; i += kLanes)
    put<kRound>(dst, i, splat(static_cast<float>(imm.value)));
}
void run_round_f16(void* dst, const void* const* src, std::int64_t n, const MapImmediate&) {
  float16 lanes[kLanes];
  for (std::int64_t i = 0; i < n; i += kLanes) {
    store(lanes, get(src[0], i));
    put<false>(dst, i, load(lanes));
  }
}

template <typename T>
void load_elements(void* dst, const void* src, std::int64_t n) {
  float* to = static_cast<float*>(dst);
  const T* from = static_cast<const T*>(src);
  for_lanes(
      n, [&](std::int64_t i, int count) { store_some(to + i, load_some(from + i, count), count); });
}
template <typename T>
void store_elements(void* dst, const void* src, std::int64_t n) {
  T* to = static_cast<T*>(dst);
  const float* from = static_cast<const float*>(src);
  for_lanes(
      n, [&](std::int64_t i, int count) { store_some(to + i, load_some(from + i, count), count); });
}

template <auto kOp>
MapVariants unary(bool round) {
  using H = bfloat16;
  return {{round ? run_unary<kOp, true, float, float> : run_unary<kOp, false, float, float>,
           round ? run_unary<kOp, true, H, float> : run_unary<kOp, false, H, float>, nullptr,
           nullptr, run_unary<kOp, false, float, H>, run_unary<kOp, false, H, H>}};
}
template <auto kOp>
MapVariants immediate(bool round) {
  using H = bfloat16;
  return {{round ? run_immediate<kOp, true, float, float> : run_immediate<kOp, false, float, float>,
           round ? run_immediate<kOp, true, H, float> : run_immediate<kOp, false, H, float>,
           nullptr, nullptr, run_immediate<kOp, false, float, H>, run_immediate<kOp, false, H, H>}};
}
template <auto kOp, bool kRound>
MapVariants binary() {
  using H = bfloat16;
  return {{run_binary<kOp, kRound, float, float, float>, run_binary<kOp, kRound, H, float, float>,
           run_binary<kOp, kRound, float, H, float>, run_binary<kOp, kRound, H, H, float>,
           run_binary<kOp, false, float, float, H>, run_binary<kOp, false, H, float, H>,
           run_binary<kOp, false, float, H, H>, run_binary<kOp, false, H, H, H>}};
}
template <auto kOp>
MapVariants binary(bool round) {
  return round ? binary<kOp, true>() : binary<kOp, false>();
}
MapVariants plain(MapFunction function) { return {{function}}; }

MapVariants f32_function(MapOp op, bool round) {
  switch (op) {
    case MapOp::constant:
      return plain(round ? run_constant<true> : run_constant<false>);
    case MapOp::cast:
      return unary<[](Float x) { return x; }>(round);
#define LAMINA_MAP_FUNCTION(name, f32, f64) \
  case MapOp::name:                         \
    return unary<[](Float x) { return f32; }>(round);
#include "runtime/map/functions.def"
    case MapOp::add_imm:
      return immediate<[](Float a, Float b) { return a + b; }>(round);
    case MapOp::mul_imm:
      return immediate<[](Float a, Float b) { return a * b; }>(round);
    case MapOp::add:
      return binary<[](Float a, Float b) { return a + b; }>(round);
    case MapOp::sub:
      return binary<[](Float a, Float b) { return a - b; }>(round);
    case MapOp::mul:
      return binary<[](Float a, Float b) { return a * b; }>(round);
    case MapOp::div:
      return binary<[](Float a, Float b) { return a / b; }>(round);
    case MapOp::max:
      return binary<[](Float a, Float b) { return max_nan(a, b); }>(round);
    case MapOp::min:
      return binary<[](Float a, Float b) { return min_nan(a, b); }>(round);
    case MapOp::pow:
      return binary<[](Float a, Float b) { return pow(a, b); }>(round);
    case MapOp::lt:
      return plain(run_compare<[](Float a, Float b) { return a < b; }>);
    case MapOp::eq:
      return plain(run_compare<[](Float a, Float b) { return a == b; }>);
    case MapOp::select:
      return plain(round ? run_select<true> : run_select<false>);
    default:
      return {};
  }
}

constexpr MapFunctions kFunctions = {
    .function = f32_function,
    .round_to_f16 = run_round_f16,
    .load_bf16 = load_elements<bfloat16>,
    .load_f16 = load_elements<float16>,
    .store_bf16 = store_elements<bfloat16>,
    .store_f16 = store_elements<float16>,
};

}  // namespace

constinit const MapFunctions MapFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
