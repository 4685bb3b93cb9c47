// The public part of plans, and their index space.
#include "backends/cpu/elementwise/map.h"

#include "backends/cpu/elementwise/map_compiled.h"

namespace lamina::cpu {

void merge_operand_dims(MapCompiled& map, const Shape& dims) {
  std::vector<MapStrides*> strides;
  for (auto* operands : {&map.operands, &map.outputs})
    for (MapOperand& operand : *operands) strides.push_back(&operand.strides);
  map.space = merge_dims(dims, strides);
  bool strided = false;
  for (auto* operands : {&map.operands, &map.outputs})
    for (MapOperand& operand : *operands) {
      operand.contiguous = map.space.contiguous(operand.strides);
      operand.scalar = map.space.scalar(operand.strides);
      strided |= !operand.contiguous && !operand.scalar;
    }
  map.rows = strided && map.space.dims[static_cast<std::size_t>(map.space.ndim - 1)] >= 256;
}

MapPlan::MapPlan(const MapProgram& program)
    : compiled_(std::make_unique<MapCompiled>(compile_map(program))) {}
MapPlan::~MapPlan() = default;
MapPlan::MapPlan(MapPlan&&) noexcept = default;
MapPlan& MapPlan::operator=(MapPlan&&) noexcept = default;

void MapPlan::run(std::span<const void* const> inputs, std::span<void* const> outputs) const {
  run_map(*compiled_, inputs, outputs);
}

}  // namespace lamina::cpu
