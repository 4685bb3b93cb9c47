// Build calls of a plugin: the input is a sequence of calls of the C API with any ops, operands,
// attributes, parameters, states and regions. The host refuses it with a message or builds a graph,
// which then runs on the CPU; each value has memory of exactly its size.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/cpu/backend.h"
#include "backends/cpu/threads/threads.h"
#include "decoder/graph/trace_block.h"
#include "decoder/trace/token_check.h"
#include "fuzz/fuzz.h"
#include "fuzz/random_plugin.h"
#include "passes/pipeline.h"
#include "runtime/program.h"

namespace lamina::fuzz {
namespace {

constexpr std::int64_t kCapacity = 8;
// Larger graphs are compiled and not run: more elements test nothing new in the kernels.
constexpr std::int64_t kMaxBytes = 1 << 18;

decoder::TracePhase phase_of(Bytes& in) {
  static constexpr std::int64_t kTokens[] = {1, 2, 3, 5};
  const unsigned bits = in.next();
  decoder::TracePhase out;
  out.batch = bits & 1 ? 2 : 1;
  out.tokens = kTokens[bits >> 1 & 3];
  if (bits & 8) out.dtype = DType::bf16;
  out.stateful = bits & 16;
  out.segments = bits & 32;
  out.training = bits & 64 && !out.stateful;
  out.aux = true;
  out.capacity = kCapacity;
  out.max_call_tokens = out.tokens;
  out.hidden_size = kWidth;
  out.num_layers = kLayers;
  out.carries = {out.activations()};
  return out;
}

// Memory of exactly the size of a value, filled with data.
class Memory {
 public:
  Memory(const Type& type, unsigned seed)
      : bytes_(new std::byte[static_cast<std::size_t>(type.bytes())]) {
    for (std::int64_t i = 0, count = type.num_elements(); i < count; ++i) {
      seed = seed * 1664525 + 1013904223;
      const int small = static_cast<int>(seed >> 24) - 128;
      store(type.dtype, i, static_cast<double>(small) / 64);
    }
  }
  void store(DType dtype, std::int64_t at, double value) {
    const auto put = [&](auto element) {
      std::memcpy(bytes_.get() + at * static_cast<std::int64_t>(sizeof element), &element,
                  sizeof element);
    };
    switch (dtype) {
      case DType::f32:
        return put(static_cast<float>(value));
      case DType::f64:
        return put(value);
      case DType::i32:
        return put(static_cast<std::int32_t>(value * 64));
      case DType::i64:
        return put(static_cast<std::int64_t>(value * 64));
      case DType::boolean:
        return put(value > 0);
      default:
        return put(std::uint16_t{static_cast<std::uint16_t>(0x3f80 + value * 64)});
    }
  }
  void* data() const { return bytes_.get(); }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

// The data that the host would write; any data for inputs that the plugin declares.
void fill_host_input(Memory& memory, const Type& type, decoder::Input role,
                     const decoder::TracePhase& phase) {
  const auto fill = [&](auto value_of) {
    for (std::int64_t i = 0; i < type.num_elements(); ++i)
      memory.store(type.dtype, i, static_cast<double>(value_of(i)) / 64);
  };
  switch (role) {
    case decoder::Input::tokens:
      return fill([](std::int64_t i) { return i * 3 % kVocab; });
    case decoder::Input::positions:
    case decoder::Input::positions_3d:
      return fill([&](std::int64_t i) { return i % phase.tokens; });
    case decoder::Input::segments:
      return fill([&](std::int64_t i) { return i % phase.tokens + 1 < phase.tokens ? 1 : 0; });
    case decoder::Input::start:
      return fill([&](std::int64_t i) { return i == 0 ? 0 : kCapacity - phase.tokens; });
    case decoder::Input::count:
      return fill([&](std::int64_t i) { return i == 0 ? phase.tokens : 0; });
    default:
      return fill([](std::int64_t i) { return i % 2; });
  }
}

std::int64_t bytes_of(const Graph& graph) {
  std::int64_t out = 0;
  for (const Value& value : graph.values())
    out = std::min(out + std::min(value.type.bytes(), kHuge), kHuge);
  return out;
}

// The graph with every value as an output, which has separate memory.
Graph with_values_apart(Graph graph) {
  std::vector<bool> is_output(graph.values().size());
  for (const GraphOutput& output : graph.outputs()) is_output[output.value] = true;
  for (ValueId v = 0; v < is_output.size(); ++v)
    if (!is_output[v] && graph.value(v).node != kNoNode) graph.add_output("value", graph.tensor(v));
  return graph;
}

void run(const decoder::BlockGraph& block, const decoder::TracePhase& phase, bool apart,
         unsigned seed) {
  const Backend& backend = cpu::cpu_backend();
  Graph graph = passes::optimize(
      passes::simplify(block.graph),
      [&](const Graph& g, const Node& node) { return is_supported(backend, g, node); });
  if (bytes_of(graph) > kMaxBytes) return;
  if (apart) graph = with_values_apart(std::move(graph));
  Program program(graph, backend);
  std::vector<Memory> memory;
  std::vector<ConstTensorRef> in;
  std::vector<TensorRef> inputs, out;
  for (const GraphInput& input : graph.inputs()) {
    const Type& type = graph.type(input.value);
    memory.emplace_back(type, ++seed);
    for (const decoder::BlockGraph::HostInput& host : block.host_inputs)
      if (block.graph.inputs()[static_cast<std::size_t>(host.input)].name == input.name)
        fill_host_input(memory.back(), type, host.role, phase);
    inputs.push_back(host_tensor(memory.back().data(), type));
    in.push_back(inputs.back());
  }
  for (const GraphOutput& output : graph.outputs()) {
    const Type& type = graph.type(output.value);
    if (output.alias_input >= 0) {
      out.push_back(inputs[static_cast<std::size_t>(output.alias_input)]);
      continue;
    }
    memory.emplace_back(type, ++seed);
    out.push_back(host_tensor(memory.back().data(), type));
  }
  const auto arena = backend.allocate(program.arena_bytes());
  program.run(in, out, *arena);
}

}  // namespace
}  // namespace lamina::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  static const bool one_thread = [] { return cpu::set_threads(1, false), true; }();
  static const registry::ModelConfig config = fuzz::family().configure({}, "fuzz");
  (void)one_thread;
  fuzz::Bytes in(data, size);
  fuzz::read_from(in);
  const decoder::TracePhase phase = fuzz::phase_of(in);
  const unsigned how = in.next();
  const decoder::BlockUse use{.block = 1, .gives_kv = how % 8 == 7};
  fuzz::refuse_or_accept([&] {
    const decoder::BlockGraph block =
        decoder::trace_block(fuzz::family(), config, use, nullptr, phase);
    if (!phase.stateful && !phase.segments && !phase.training)
      fuzz::refuse_or_accept([&] {
        decoder::check_tokens_apart(
            use, block, phase,
            {.carries = {decoder::tokens_of_activations(phase)}, .per_layer = {}}, fuzz::family());
      });
    fuzz::run(block, phase, how & 8, how);
  });
  return 0;
}
