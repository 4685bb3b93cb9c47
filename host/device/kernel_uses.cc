#include "device/kernel_uses.h"

#include <algorithm>

#include "backends/cuda/described/described.h"
#include "backends/cuda/described/resources.h"
#include "core/error.h"

namespace lamina::device {
namespace {

// Adds the launches of each node to a list.
class Collector final : public Watcher {
 public:
  explicit Collector(const cuda::Card& card) : card_(card) {}

  void enter(const Graph&, NodeId, std::int64_t) override {}
  void leave() override {}
  void ran(const Graph& graph, NodeId node, std::span<const TensorRef>) override {
    for (const cuda::Launch& launch : notes_.take()) add(graph.node(node).op->name, launch);
  }

  std::vector<KernelUse> uses;

 private:
  void add(const std::string& op, const cuda::Launch& launch) {
    auto use = std::ranges::find_if(
        uses, [&](const KernelUse& u) { return u.op == op && u.kernel == launch.kernel; });
    if (use == uses.end()) use = uses.insert(uses.end(), {.op = op, .kernel = launch.kernel});
    ++use->count;
    if (launch.threads == 0 || launch.blocks <= use->blocks) return;
    use->blocks = launch.blocks;
    use->threads = launch.threads;
    use->shared_bytes = launch.shared_bytes;
    const cuda::KernelResources* const found = cuda::find_resources(launch.kernel);
    if (!found) return;
    const cuda::Occupancy there =
        cuda::occupancy(card_, *found, launch.threads, launch.shared_bytes);
    use->shared_bytes += found->shared_bytes;
    use->registers = card_.capability >= 90 ? found->registers_90 : found->registers_80;
    use->warps = there.warps;
    use->most_warps = there.most_warps;
    use->limited_by = there.limit;
  }

  const cuda::Card& card_;
  cuda::LaunchNotes notes_;
};

}  // namespace

std::vector<KernelUse> kernel_uses(const Device& gpu, Program& program) {
  LAMINA_ASSERT(!gpu.computes());
  const cuda::Card* const card = cuda::find_card(gpu.name().substr(gpu.name().find(':') + 1));
  LAMINA_ASSERT(card);
  const Graph& graph = program.graph();
  std::vector<std::unique_ptr<Buffer>> memory;
  const auto place = [&](ValueId value) {
    const Type& type = graph.type(value);
    memory.push_back(gpu.backend().allocate(static_cast<std::size_t>(type.bytes())));
    return TensorRef(*memory.back(), 0, type);
  };
  std::vector<TensorRef> inputs, outputs;
  for (const GraphInput& input : graph.inputs()) inputs.push_back(place(input.value));
  for (const GraphOutput& output : graph.outputs())
    outputs.push_back(output.alias_input < 0
                          ? place(output.value)
                          : inputs[static_cast<std::size_t>(output.alias_input)]);
  const auto arena = gpu.backend().allocate(program.arena_bytes());
  Collector collector(*card);
  const Watching watching(program, collector);
  program.run(std::vector<ConstTensorRef>(inputs.begin(), inputs.end()), outputs, *arena);
  return std::move(collector.uses);
}

}  // namespace lamina::device
