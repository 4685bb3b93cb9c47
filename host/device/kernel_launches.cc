#include "device/kernel_launches.h"

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

  std::vector<KernelLaunches> launches;

 private:
  void add(const std::string& op, const cuda::Launch& launch) {
    auto sum = std::ranges::find_if(
        launches, [&](const KernelLaunches& l) { return l.op == op && l.kernel == launch.kernel; });
    if (sum == launches.end())
      sum = launches.insert(launches.end(), {.op = op, .kernel = launch.kernel});
    ++sum->count;
    if (launch.threads == 0 || launch.blocks <= sum->blocks) return;
    sum->blocks = launch.blocks;
    sum->threads = launch.threads;
    sum->shared_bytes = launch.shared_bytes;
    const cuda::KernelResources* const found = cuda::find_resources(launch.kernel);
    if (!found) return;
    const cuda::Occupancy there =
        cuda::occupancy(card_, *found, launch.threads, launch.shared_bytes);
    sum->shared_bytes += found->shared_bytes;
    sum->registers = card_.capability >= 90 ? found->registers_90 : found->registers_80;
    sum->warps = there.warps;
    sum->most_warps = there.most_warps;
    sum->limited_by = there.limit;
  }

  const cuda::Card& card_;
  cuda::LaunchNotes notes_;
};

}  // namespace

std::vector<KernelLaunches> kernel_launches(const Device& gpu, Program& program) {
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
  return std::move(collector.launches);
}

}  // namespace lamina::device
