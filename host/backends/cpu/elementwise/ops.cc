// Elementwise ops and fused_map: a node or a chain of nodes becomes one map, a single pass over
// memory.
#include "backends/cpu/elementwise/map.h"
#include "backends/cpu/kernels.h"
#include "runtime/map/translate.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return make_kernel([plan = std::make_shared<const MapPlan>(map_program(n))](
                         const KernelArgs& args) { plan->run(args.inputs, args.outputs); });
}

constexpr KernelChoice kChoices[] = {{"map", map_supports, make, kInPlaceAny, true}};

}  // namespace

std::span<const KernelChoice> elementwise_kernels() { return kChoices; }

}  // namespace lamina::cpu
