// The fake driver: capture of work, and graphs.
#include "backends/cuda/emulation/driver_graphs.h"

#include <algorithm>
#include <random>
#include <set>

#include "backends/cuda/emulation/driver_state.h"
#include "backends/emulated/memory.h"

namespace lamina::cuda::emulation {
namespace {

constexpr int kPoison = 0xff;

// The capture that this thread has begun, if it has not ended.
thread_local std::weak_ptr<WorkCapture> capture_here;

struct Graphs {
  std::mutex mutex;
  std::set<GraphHandle> graphs;
  std::set<ExecutableGraphHandle> executables;
  std::set<std::size_t> scratch;  // sizes of allocations
  std::minstd_rand random{20261};

  static Graphs& instance() {
    static Graphs& graphs = *new Graphs;  // programs may end at exit
    return graphs;
  }
};

bool is_graph(GraphHandle graph) {
  const std::lock_guard lock(Graphs::instance().mutex);
  return Graphs::instance().graphs.contains(graph);
}
bool is_executable(ExecutableGraphHandle graph) {
  const std::lock_guard lock(Graphs::instance().mutex);
  return Graphs::instance().executables.contains(graph);
}

// True if each node is one that the last work of the stream waits for, or runs before such a node.
bool is_joined(const DriverGraph& graph, const std::vector<std::size_t>& last) {
  std::set<std::size_t> leaves;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::size_t before : graph.nodes[i].after) leaves.erase(before);
    leaves.insert(i);
  }
  return std::ranges::all_of(
      leaves, [&](std::size_t leaf) { return std::ranges::find(last, leaf) != last.end(); });
}

// Returns one of the orders that the dependencies allow.
std::vector<std::size_t> legal_order(const DriverGraph& graph) {
  std::vector<std::size_t> order, missing(graph.nodes.size());
  std::vector<std::vector<std::size_t>> later(graph.nodes.size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    missing[i] = graph.nodes[i].after.size();
    for (const std::size_t before : graph.nodes[i].after) later[before].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  const std::lock_guard lock(Graphs::instance().mutex);
  while (!ready.empty()) {
    std::swap(ready[Graphs::instance().random() % ready.size()], ready.back());
    const std::size_t node = ready.back();
    ready.pop_back();
    order.push_back(node);
    for (const std::size_t next : later[node])
      if (--missing[next] == 0) ready.push_back(next);
  }
  return order;
}

// Fills scratch memory, because a replay may not use what earlier work left in it.
void poison_scratch() {
  std::vector<DevicePointer> found;
  {
    const std::lock_guard lock(Graphs::instance().mutex);
    const std::lock_guard lock_memory(DriverState::instance().mutex);
    for (const auto& [address, buffer] : DriverState::instance().memory)
      if (Graphs::instance().scratch.contains(buffer->bytes())) found.push_back(address);
  }
  for (const DevicePointer address : found) {
    const std::span<std::byte> memory = emulated::buffer_behind(address);
    std::ranges::fill(memory, std::byte{kPoison});
  }
}

bool same_shape(const DriverGraph& a, const DriverGraph& b) {
  return std::ranges::equal(a.nodes, b.nodes, [](const auto& x, const auto& y) {
    return x.kind == y.kind && x.after == y.after;
  });
}

}  // namespace

void CapturePlace::add(DriverGraph::Kind kind, std::function<void()> run) {
  capture->graph.nodes.push_back({kind, std::move(run), after});
  after = {capture->graph.nodes.size() - 1};
}

DriverResult refuse_in_capture() {
  const std::shared_ptr<WorkCapture> capture = capture_here.lock();
  if (!capture || capture->ended) return DriverResult::success;
  capture->valid = false;
  return DriverResult::capture_unsupported;
}

void poison_at_replay(std::size_t bytes) {
  const std::lock_guard lock(Graphs::instance().mutex);
  Graphs::instance().scratch.insert(bytes);
}
void stop_poison() {
  const std::lock_guard lock(Graphs::instance().mutex);
  Graphs::instance().scratch.clear();
}

namespace calls {

DriverResult begin_capture(StreamHandle stream, CaptureMode mode) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_stream(stream)) return DriverResult::invalid_handle;
  if (mode != CaptureMode::thread_local_) return DriverResult::invalid_value;  // not modelled
  if (stream->place.is_captured()) return DriverResult::illegal_state;
  auto capture = std::make_shared<WorkCapture>();
  capture->origin = stream;
  capture->thread = std::this_thread::get_id();
  capture_here = capture;
  stream->place = {std::move(capture), {}};
  ++counts().captures;
  return DriverResult::success;
}

DriverResult end_capture(StreamHandle stream, GraphHandle* graph) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  *graph = nullptr;
  if (!is_stream(stream)) return DriverResult::invalid_handle;
  if (!stream->place.is_captured()) return DriverResult::illegal_state;
  const std::shared_ptr<WorkCapture> capture = stream->place.capture;
  if (capture->origin != stream) return DriverResult::capture_unmatched;
  if (capture->thread != std::this_thread::get_id()) return DriverResult::capture_wrong_thread;
  const std::vector<std::size_t> last = std::move(stream->place.after);
  capture->ended = true;
  stream->place = {};
  if (!capture->valid) return DriverResult::capture_invalidated;
  if (!is_joined(capture->graph, last)) return DriverResult::capture_unjoined;
  *graph = new DriverGraph(std::move(capture->graph));
  const std::lock_guard lock(Graphs::instance().mutex);
  Graphs::instance().graphs.insert(*graph);
  return DriverResult::success;
}

DriverResult graph_nodes(GraphHandle graph, GraphNodeHandle* nodes, std::size_t* count) {
  if (!is_graph(graph) || nodes) return DriverResult::invalid_value;  // only counts
  return *count = graph->nodes.size(), DriverResult::success;
}

DriverResult destroy_graph(GraphHandle graph) {
  {
    const std::lock_guard lock(Graphs::instance().mutex);
    if (Graphs::instance().graphs.erase(graph) == 0) return DriverResult::invalid_value;
  }
  delete graph;
  return DriverResult::success;
}

DriverResult instantiate(ExecutableGraphHandle* executable, GraphHandle graph,
                         unsigned long long flags) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (flags != 0 || !is_graph(graph)) return DriverResult::invalid_value;
  if (DriverState::instance().is_fault(current_gpu, FaultPlace::allocation))
    return DriverResult::out_of_memory;
  *executable = new DriverExecutableGraph{std::make_shared<const DriverGraph>(*graph)};
  ++counts().instantiations;
  const std::lock_guard lock(Graphs::instance().mutex);
  Graphs::instance().executables.insert(*executable);
  return DriverResult::success;
}

DriverResult update(ExecutableGraphHandle executable, GraphHandle graph, GraphUpdateInfo* info) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_executable(executable) || !is_graph(graph) || !info) return DriverResult::invalid_value;
  *info = {};
  if (!same_shape(*executable->graph, *graph)) {
    info->result = 1;
    return DriverResult::graph_update_failed;
  }
  executable->graph = std::make_shared<const DriverGraph>(*graph);
  ++counts().updates;
  return DriverResult::success;
}

DriverResult launch_graph(ExecutableGraphHandle executable, StreamHandle stream) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_executable(executable) || !is_stream(stream)) return DriverResult::invalid_handle;
  if (stream->place.is_captured()) return DriverResult::capture_unsupported;  // not modelled
  if (DriverState::instance().is_fault(current_gpu, FaultPlace::launch)) return fail_launch();
  ++counts().replays;
  add(stream, DriverGraph::Kind::fill, poison_scratch);
  const std::shared_ptr<const DriverGraph> graph = executable->graph;
  for (const std::size_t node : legal_order(*graph))
    add(stream, graph->nodes[node].kind, [graph, node] { graph->nodes[node].run(); });
  return DriverResult::success;
}

DriverResult destroy_executable(ExecutableGraphHandle executable) {
  {
    const std::lock_guard lock(Graphs::instance().mutex);
    if (Graphs::instance().executables.erase(executable) == 0) return DriverResult::invalid_value;
  }
  delete executable;
  return DriverResult::success;
}

}  // namespace calls
}  // namespace lamina::cuda::emulation
