// Elementwise ops and fused_map: a node or a chain of nodes becomes one map, which a ready-made
// kernel or the interpreter runs (docs/adr/0036-maps-on-gpus-are-interpreted.md).
#include <algorithm>
#include <memory>
#include <vector>

#include "backends/cuda/elementwise/encode.h"
#include "backends/cuda/elementwise/match.h"
#include "backends/cuda/kernel_support.h"
#include "ops/op_code.h"
#include "ops/registry.h"
#include "runtime/map/translate.h"

namespace lamina::cuda {
namespace {

constexpr std::size_t kVectorBytes = 16;

void set_addresses(const KernelArgs& args, const auto& set) {
  std::size_t next = 0;
  for (const void* input : args.inputs) set(next++, address(input));
  for (void* output : args.outputs) set(next++, address(output));
}

// ---- Ready-made kernels ----

namespace ready {

Verdict supports(const NodeView& n) {
  if (Verdict maps = map_supports(n); !maps) return maps;
  return find_ready(map_program(n)) ? Verdict::yes() : Verdict::no("no ready-made map is the same");
}

// Views may start at any element; the interpreter takes those, with the same results.
class ReadyMapKernel final : public Kernel {
 public:
  ReadyMapKernel(const ReadyKernel& ready, Function function, std::unique_ptr<Kernel> interpreted)
      : name_(ready.name),
        p_(ready.params),
        function_(function),
        interpreted_(std::move(interpreted)) {}

  void run(const KernelArgs& args) override {
    bool aligned = true;
    set_addresses(args, [&](std::size_t i, gpu::Address at) {
      p_.operands[i] = at;
      aligned &= at.value % kVectorBytes == 0;
    });
    if (!aligned) return interpreted_->run(args);
    constexpr int kThreads = 256, kPerThread = 8;
    launch(args, function_,
           {.blocks = grid_for(p_.num_elements, kThreads * kPerThread), .threads = kThreads}, p_);
  }
  std::string detail() const override { return name_; }

 private:
  std::string name_;
  ReadyParams p_;
  Function function_;
  std::unique_ptr<Kernel> interpreted_;
};

}  // namespace ready

// ---- The interpreter ----

namespace interpreted {

// Slots of a block with the fewest threads.
int slot_bytes_of_thread(const EncodedMap& map) {
  return map.wide ? kMapElements64 * 8 : kMapElements32 * 4;
}
constexpr int kFewestThreads = 32, kMostThreads = 128;

std::string refusal(const EncodedMap& map) {
  if (!map.too_large.empty()) return map.too_large;
  const int most =
      static_cast<int>(kUsualSharedBytes) / (slot_bytes_of_thread(map) * kFewestThreads);
  if (map.num_slots > most)
    return fmt::format("the map keeps {} values at once; at most {} fit", map.num_slots, most);
  return {};
}

Verdict supports(const NodeView& n) {
  if (Verdict maps = map_supports(n); !maps) return maps;
  for (int i = 1; i < n.num_outputs(); ++i)
    if (n.out_type(i).shape != n.out_type().shape)
      return Verdict::no("all results must have one shape, got " + to_string(n.out_type(i)) +
                         " and " + to_string(n.out_type()));
  return {refusal(encode_map(map_program(n)))};
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const EncodedMap map = encode_map(map_program(n));
  const Function function = cuda::function(context, map.wide ? "map_64" : "map_32");
  const int bytes = slot_bytes_of_thread(map) * std::max(1, map.num_slots);
  int threads = kMostThreads;
  while (threads > kFewestThreads && bytes * threads > static_cast<int>(kUsualSharedBytes))
    threads /= 2;
  const int elements = map.wide ? kMapElements64 : kMapElements32;
  const LaunchShape shape{.blocks = grid_for(map.params.num_elements, threads * elements),
                          .threads = threads,
                          .shared_bytes = static_cast<std::size_t>(bytes * threads)};
  return make_kernel(
      [p = std::make_shared<MapParams>(map.params), function, shape](const KernelArgs& args) {
        set_addresses(args, [&](std::size_t i, gpu::Address at) { p->operands[i].address = at; });
        launch(args, function, shape, *p);
      });
}

}  // namespace interpreted

std::unique_ptr<Kernel> make_ready(const NodeView& n, Context& context) {
  const ReadyKernel ready = find_ready(map_program(n)).value();
  return std::make_unique<ready::ReadyMapKernel>(ready, function(context, ready.name),
                                                 interpreted::make(n, context));
}

constexpr KernelChoice kChoices[] = {
    {"ready map", ready::supports, make_ready, kInPlaceAny},
    {"map", interpreted::supports, interpreted::make, kInPlaceAny},
};

std::vector<OpKernels> make_table() {
  std::vector<OpKernels> table;
  for (const Op& op : ops::all())
    if (op.def->elementwise || op.code == OpCode::fused_map) table.push_back({op.name, kChoices});
  return table;
}

}  // namespace

KernelTable elementwise_kernels() {
  static const std::vector<OpKernels> table = make_table();
  return table;
}

}  // namespace lamina::cuda
