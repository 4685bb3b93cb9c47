// Elementwise ops and fused_map: a node or a chain of nodes becomes one map, a single pass over
// memory.
#include "backends/cpu/elementwise/map.h"
#include "backends/cpu/elementwise/map_compiled.h"
#include "backends/cpu/kernels.h"
#include "runtime/map/translate.h"

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

namespace {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return make_kernel([plan = std::make_shared<const MapPlan>(map_program(n))](
                         const KernelArgs& args) { plan->run(args.inputs, args.outputs); });
}

constexpr KernelChoice kChoices[] = {{"map", map_supports, make, kInPlaceAny, true}};

}  // namespace

std::span<const KernelChoice> elementwise_kernels() { return kChoices; }

}  // namespace lamina::cpu
