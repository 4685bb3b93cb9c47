// The instructions of maps in f64, i32 and i64, and all casts: plain loops.
#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/elementwise/map_compiled.h"
#include "core/float16.h"
#include "runtime/map/functions.h"

namespace lamina::cpu {
namespace {

template <auto kOp, typename T>
void run_unary(void* dst, const void* const* src, std::int64_t n, const MapImmediate&) {
  const T* a = static_cast<const T*>(src[0]);
  T* y = static_cast<T*>(dst);
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(kOp(a[i]));
}
template <typename T>
T immediate_as(const MapImmediate& imm) {
  if constexpr (std::is_same_v<T, double>)
    return imm.value;
  else
    return static_cast<T>(imm.integer);
}
template <auto kOp, typename T>
void run_immediate(void* dst, const void* const* src, std::int64_t n, const MapImmediate& imm) {
  const T* a = static_cast<const T*>(src[0]);
  T* y = static_cast<T*>(dst);
  const T b = immediate_as<T>(imm);
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(kOp(a[i], b));
}
template <auto kOp, typename T, typename Result = T>
void run_binary(void* dst, const void* const* src, std::int64_t n, const MapImmediate&) {
  const T* a = static_cast<const T*>(src[0]);
  const T* b = static_cast<const T*>(src[1]);
  Result* y = static_cast<Result*>(dst);
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<Result>(kOp(a[i], b[i]));
}
template <typename T>
void run_select(void* dst, const void* const* src, std::int64_t n, const MapImmediate&) {
  const std::int32_t* c = static_cast<const std::int32_t*>(src[0]);
  const T* a = static_cast<const T*>(src[1]);
  const T* b = static_cast<const T*>(src[2]);
  T* y = static_cast<T*>(dst);
  for (std::int64_t i = 0; i < n; ++i) y[i] = c[i] != 0 ? a[i] : b[i];
}
template <typename T>
void run_constant(void* dst, const void* const*, std::int64_t n, const MapImmediate& imm) {
  T* y = static_cast<T*>(dst);
  for (std::int64_t i = 0; i < n; ++i) y[i] = immediate_as<T>(imm);
}

// Signed arithmetic that wraps, computed on unsigned numbers.
template <typename T>
std::make_unsigned_t<T> bits(T x) {
  return static_cast<std::make_unsigned_t<T>>(x);
}
template <typename T>
int places(T shift) {
  return static_cast<int>(bits(shift) % (8 * sizeof(T)));
}
template <typename T>
T floor_divide(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<T>(0 - bits(a));
  const T q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
template <typename T>
T nan_or(T a, T b, T chosen) {
  return std::isnan(a) ? a : std::isnan(b) ? b : chosen;
}

MapFunction f64_function(MapOp op) {
  using T = double;
  switch (op) {
    case MapOp::constant:
      return run_constant<T>;
#define LAMINA_MAP_FUNCTION(name, f32, f64) \
  case MapOp::name:                         \
    return run_unary<[](T x) { return f64; }, T>;
#include "runtime/map/functions.def"
    case MapOp::add_imm:
      return run_immediate<[](T a, T b) { return a + b; }, T>;
    case MapOp::mul_imm:
      return run_immediate<[](T a, T b) { return a * b; }, T>;
    case MapOp::add:
      return run_binary<[](T a, T b) { return a + b; }, T>;
    case MapOp::sub:
      return run_binary<[](T a, T b) { return a - b; }, T>;
    case MapOp::mul:
      return run_binary<[](T a, T b) { return a * b; }, T>;
    case MapOp::div:
      return run_binary<[](T a, T b) { return a / b; }, T>;
    case MapOp::max:
      return run_binary<[](T a, T b) { return nan_or(a, b, (a > b) ? a : b); }, T>;
    case MapOp::min:
      return run_binary<[](T a, T b) { return nan_or(a, b, a < b ? a : b); }, T>;
    case MapOp::pow:
      return run_binary<[](T a, T b) { return std::pow(a, b); }, T>;
    default:
      return nullptr;
  }
}

template <typename T>
MapFunction compare_function(MapOp op) {
  using B = std::int32_t;
  switch (op) {
    case MapOp::lt:
      return run_binary<[](T a, T b) { return a < b; }, T, B>;
    case MapOp::eq:
      return run_binary<[](T a, T b) { return a == b; }, T, B>;
    case MapOp::select:
      return run_select<T>;
    default:
      return nullptr;
  }
}

template <typename T>
MapFunction integer_function(MapOp op) {
  switch (op) {
    case MapOp::constant:
      return run_constant<T>;
    case MapOp::neg:
      return run_unary<[](T x) { return 0 - bits(x); }, T>;
    case MapOp::abs:
      return run_unary<[](T x) { return x < 0 ? 0 - bits(x) : bits(x); }, T>;
    case MapOp::square:
      return run_unary<[](T x) { return bits(x) * bits(x); }, T>;
    case MapOp::relu:
      return run_unary<[](T x) { return x < 0 ? T(0) : x; }, T>;
    case MapOp::add_imm:
      return run_immediate<[](T a, T b) { return bits(a) + bits(b); }, T>;
    case MapOp::mul_imm:
      return run_immediate<[](T a, T b) { return bits(a) * bits(b); }, T>;
    case MapOp::add:
      return run_binary<[](T a, T b) { return bits(a) + bits(b); }, T>;
    case MapOp::sub:
      return run_binary<[](T a, T b) { return bits(a) - bits(b); }, T>;
    case MapOp::mul:
      return run_binary<[](T a, T b) { return bits(a) * bits(b); }, T>;
    case MapOp::max:
      return run_binary<[](T a, T b) { return (a > b) ? a : b; }, T>;
    case MapOp::min:
      return run_binary<[](T a, T b) { return a < b ? a : b; }, T>;
    case MapOp::floordiv:
      return run_binary<[](T a, T b) { return floor_divide(a, b); }, T>;
    case MapOp::bit_and:
      return run_binary<[](T a, T b) { return a & b; }, T>;
    case MapOp::bit_or:
      return run_binary<[](T a, T b) { return a | b; }, T>;
    case MapOp::bit_xor:
      return run_binary<[](T a, T b) { return a ^ b; }, T>;
    case MapOp::shift_left:
      return run_binary<[](T a, T b) { return bits(a) << places(b); }, T>;
    case MapOp::shift_right:
      return run_binary<[](T a, T b) { return (a >> places(b)); }, T>;
    default:
      return compare_function<T>(op);
  }
}

// Converts a floating number to an integer type: rounds toward zero, saturates, and returns 0 for
// NaN.
template <typename Integer, typename Float>
Integer saturate(Float x) {
  using Limits = std::numeric_limits<Integer>;
  const double wide = static_cast<double>(x);
  if (std::isnan(wide)) return 0;
  if (wide <= static_cast<double>(Limits::min())) return Limits::min();
  if (wide >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<Integer>(wide);
}

template <typename From, typename Register, typename Value = Register>
void run_cast(void* dst, const void* const* src, std::int64_t n, const MapImmediate&) {
  const From* a = static_cast<const From*>(src[0]);
  Register* y = static_cast<Register*>(dst);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<Value, bool>)
      y[i] = a[i] != 0;
    else if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<Value>)
      y[i] = saturate<Value>(a[i]);
    else
      y[i] = static_cast<Register>(static_cast<Value>(a[i]));
  }
}

template <typename From>
MapFunction cast_from(DType to) {
  switch (to) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return run_cast<From, float>;
    case DType::f64:
      return run_cast<From, double>;
    case DType::i32:
      return run_cast<From, std::int32_t>;
    case DType::i64:
      return run_cast<From, std::int64_t>;
    case DType::boolean:
      return run_cast<From, std::int32_t, bool>;
    case DType::u8:
      return run_cast<From, std::int32_t, std::uint8_t>;
    case DType::i8:
      return run_cast<From, std::int32_t, std::int8_t>;
    case DType::u16:
      return run_cast<From, std::int32_t, std::uint16_t>;
    case DType::i16:
      return run_cast<From, std::int32_t, std::int16_t>;
    case DType::u32:
      return run_cast<From, std::int64_t, std::uint32_t>;
    default:
      return nullptr;
  }
}

template <typename Memory, typename Register>
void run_load(void* dst, const void* src, std::int64_t n) {
  const Memory* a = static_cast<const Memory*>(src);
  Register* y = static_cast<Register*>(dst);
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<Register>(a[i]);
}

}  // namespace

MapFunction map_scalar_function(MapOp op, MapKind kind) {
  switch (kind) {
    case MapKind::f64:
      if (MapFunction function = f64_function(op)) return function;
      return compare_function<double>(op);
    case MapKind::i32:
      return integer_function<std::int32_t>(op);
    case MapKind::i64:
      return integer_function<std::int64_t>(op);
    case MapKind::f32:
      break;
  }
  return nullptr;
}

MapFunction map_cast_function(MapKind from, DType to) {
  switch (from) {
    case MapKind::f32:
      return cast_from<float>(to);
    case MapKind::f64:
      return cast_from<double>(to);
    case MapKind::i32:
      return cast_from<std::int32_t>(to);
    case MapKind::i64:
      return cast_from<std::int64_t>(to);
  }
  return nullptr;
}

MapFunction map_wrap_function(DType to) {
  switch (to) {
    case DType::u8:
    case DType::i8:
    case DType::u16:
    case DType::i16:
      return cast_from<std::int32_t>(to);
    case DType::u32:
      return cast_from<std::int64_t>(to);
    default:
      return nullptr;
  }
}

MapConvert map_load_function(DType from) {
  switch (from) {
    case DType::boolean:
    case DType::u8:
      return run_load<std::uint8_t, std::int32_t>;
    case DType::i8:
      return run_load<std::int8_t, std::int32_t>;
    case DType::u16:
      return run_load<std::uint16_t, std::int32_t>;
    case DType::i16:
      return run_load<std::int16_t, std::int32_t>;
    case DType::u32:
      return run_load<std::uint32_t, std::int64_t>;
    default:
      return nullptr;
  }
}

MapConvert map_store_function(DType to) {
  switch (to) {
    case DType::boolean:
    case DType::u8:
      return run_load<std::int32_t, std::uint8_t>;
    case DType::i8:
      return run_load<std::int32_t, std::int8_t>;
    case DType::u16:
      return run_load<std::int32_t, std::uint16_t>;
    case DType::i16:
      return run_load<std::int32_t, std::int16_t>;
    case DType::u32:
      return run_load<std::int64_t, std::uint32_t>;
    default:
      return nullptr;
  }
}

}  // namespace lamina::cpu
