// The index space of a map: merges dims that are evenly spaced in every operand.
#include <optional>

#include "backends/cpu/elementwise/map_compiled.h"

namespace lamina::cpu {
namespace {

template <typename Visit>
void for_each_operand(MapCompiled& map, const Visit& visit) {
  for (MapOperand& operand : map.operands) visit(operand);
  for (MapOperand& operand : map.outputs) visit(operand);
}

// Removes dims of one element and merges neighbours, together with their strides.
void merge_dims(MapCompiled& map, const Shape& dims) {
  map.num_elements = dims.num_elements();
  int kept = 0;
  for (int d = 0; d < dims.ndim(); ++d) {
    const std::int64_t size = dims[d];
    if (size == 1) continue;
    const auto from = static_cast<std::size_t>(d);
    bool merges = kept > 0;
    for_each_operand(map, [&](MapOperand& operand) {
      merges = merges &&
               operand.strides[static_cast<std::size_t>(kept - 1)] == operand.strides[from] * size;
    });
    const auto to = static_cast<std::size_t>(merges ? kept - 1 : kept);
    for_each_operand(map,
                     [&](MapOperand& operand) { operand.strides[to] = operand.strides[from]; });
    map.dims[to] = merges ? map.dims[to] * size : size;
    if (!merges) ++kept;
  }
  if (kept == 0) {
    map.dims[0] = map.num_elements;
    for_each_operand(map, [](MapOperand& operand) { operand.strides[0] = 0; });
    kept = 1;
  }
  map.ndim = kept;
}

}  // namespace

void collapse_map_dims(MapCompiled& map, const Shape& dims) {
  merge_dims(map, dims);
  bool strided = false;
  for_each_operand(map, [&](MapOperand& operand) {
    std::int64_t linear = 1;
    operand.contiguous = operand.scalar = true;
    for (int d = map.ndim - 1; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      operand.contiguous &= operand.strides[i] == linear || map.dims[i] <= 1;
      operand.scalar &= operand.strides[i] == 0;
      linear *= map.dims[i];
    }
    strided |= !operand.contiguous && !operand.scalar;
  });
  map.rows = strided && map.dims[static_cast<std::size_t>(map.ndim - 1)] >= 256;
}

std::optional<MapKind> map_kind(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return MapKind::f32;
    case DType::f64:
      return MapKind::f64;
    case DType::i32:
    case DType::u8:
    case DType::i8:
    case DType::u16:
    case DType::i16:
    case DType::boolean:
      return MapKind::i32;
    case DType::i64:
    case DType::u32:
      return MapKind::i64;
    default:
      return std::nullopt;
  }
}

}  // namespace lamina::cpu
