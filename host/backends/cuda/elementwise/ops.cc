// Elementwise ops and fused_map: a node or a chain of nodes becomes one map, which a ready-made
// kernel or the interpreter runs (docs/adr/0036-maps-on-gpus-are-interpreted.md).
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/chunks.h"
#include "backends/cuda/elementwise/encode.h"
#include "backends/cuda/elementwise/group.h"
#include "backends/cuda/elementwise/match.h"
#include "backends/cuda/kernel_support.h"
#include "ops/op_code.h"
#include "ops/registry.h"
#include "runtime/kernel_group.h"
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

// The interpreter has the same results. It takes views, which may start at any element, and several
// small tensors in one launch.
class ReadyMapKernel final : public KernelGroup {
 public:
  ReadyMapKernel(const ReadyKernel& ready, Function function,
                 std::unique_ptr<KernelGroup> interpreted)
      : name_(ready.name),
        p_(ready.params),
        function_(function),
        interpreted_(std::move(interpreted)) {}

  bool add(const NodeView& n) override {
    constexpr std::int64_t kMostElements = std::int64_t{1} << 16;
    if (std::max(p_.num_elements, n.out_type().num_elements()) > kMostElements) return false;
    if (!interpreted_->add(n)) return false;
    is_alone_ = false;
    return true;
  }

  void run(const KernelArgs& args) override {
    if (!is_alone_) return interpreted_->run(args);
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
  std::string detail() const override { return is_alone_ ? name_ : interpreted_->detail(); }

 private:
  std::string name_;
  ReadyParams p_;
  Function function_;
  std::unique_ptr<KernelGroup> interpreted_;
  bool is_alone_ = true;
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

// The map of a node, or of several of one form.
class InterpretedMapKernel final : public KernelGroup {
 public:
  InterpretedMapKernel(const NodeView& n, Context& context)
      : first_(std::make_unique<EncodedMap>(encode_map(map_program(n)))),
        form_(form_of(*first_)),
        function_(function(context, first_->wide ? "map_64" : "map_32")),
        group_function_(function(context, first_->wide ? "map_group_64" : "map_group_32")) {
    const int bytes = slot_bytes_of_thread(*first_) * std::max(1, first_->num_slots);
    int threads = kMostThreads;
    while (threads > kFewestThreads && bytes * threads > static_cast<int>(kUsualSharedBytes))
      threads /= 2;
    elements_per_block_ = threads * (first_->wide ? kMapElements64 : kMapElements32);
    shape_ = {.blocks = grid_for(first_->params.num_elements, elements_per_block_),
              .threads = threads,
              .shared_bytes = static_cast<std::size_t>(bytes * threads)};
  }

  bool add(const NodeView& n) override {
    const EncodedMap map = encode_map(map_program(n));
    if (!form_ || form_of(map) != form_) return false;
    if (launches_.empty()) add_to_launch(*first_);
    add_to_launch(map);
    ++num_tensors_;
    return true;
  }

  void run(const KernelArgs& args) override {
    if (num_tensors_ == 1) {
      MapParams& p = first_->params;
      set_addresses(args, [&](std::size_t i, gpu::Address at) { p.operands[i].address = at; });
      return launch(args, function_, shape_, p);
    }
    const std::size_t num_inputs = args.inputs.size() / num_tensors_,
                      num_outputs = args.outputs.size() / num_tensors_;
    std::size_t next = 0;
    for (MapGroupLaunch& group : launches_) {
      for (int tensor = 0; tensor < group.num_tensors(); ++tensor, ++next)
        set_addresses({.inputs = args.inputs.subspan(next * num_inputs, num_inputs),
                       .outputs = args.outputs.subspan(next * num_outputs, num_outputs)},
                      [&](std::size_t i, gpu::Address at) { group.set_address(tensor, i, at); });
      group.run(args, group_function_, shape_);
    }
  }

  std::string detail() const override {
    return form_ ? group_text(num_tensors_, static_cast<std::size_t>(form_->most_tensors()),
                              "tensors")
                 : "";
  }

 private:
  void add_to_launch(const EncodedMap& map) {
    if (launches_.empty() || launches_.back().num_tensors() == form_->most_tensors())
      launches_.emplace_back(*form_);
    launches_.back().add(map, elements_per_block_);
  }

  std::unique_ptr<EncodedMap> first_;
  std::optional<MapForm> form_;
  Function function_, group_function_;
  std::int64_t elements_per_block_ = 0;
  LaunchShape shape_;
  std::size_t num_tensors_ = 1;
  std::vector<MapGroupLaunch> launches_;  // of several tensors
};

std::unique_ptr<KernelGroup> make_map(const NodeView& n, Context& context) {
  return std::make_unique<InterpretedMapKernel>(n, context);
}
std::unique_ptr<Kernel> make(const NodeView& n, Context& context) { return make_map(n, context); }

}  // namespace interpreted

std::unique_ptr<Kernel> make_ready(const NodeView& n, Context& context) {
  const ReadyKernel ready = find_ready(map_program(n)).value();
  return std::make_unique<ready::ReadyMapKernel>(ready, function(context, ready.name),
                                                 interpreted::make_map(n, context));
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
