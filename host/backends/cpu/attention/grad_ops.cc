// attention_grad: tiles with recomputed probabilities for f32 and bf16, plain loops in double for
// f64.
#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/inputs.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

constexpr int kY = 9, kLse = 10, kDy = 11;
constexpr AttentionPositions kWhere = {.positions = 3,
                                       .key_positions = 4,
                                       .segments = 5,
                                       .key_segments = 6,
                                       .sinks = 7,
                                       .blocks = 8,
                                       .mask = 12};

class AttentionGradKernel final : public Kernel {
 public:
  AttentionGradKernel(const NodeView& n, bool tiles)
      : spec_(attention_spec(n)),
        inputs_(n, kWhere),
        tiles_(tiles),
        types_{n.type(0), n.type(1), n.type(2), n.type(kY)},
        masks_bytes_(aligned(inputs_.workspace_bytes())) {}

  std::size_t workspace_bytes() const override {
    return masks_bytes_ + (tiles_ ? attention_backward_workspace_bytes(spec_)
                                  : reference::attention_backward_workspace_bytes(spec_));
  }

  void run(const KernelArgs& args) override {
    const AttentionInputs::Ready ready = inputs_.prepare(args, args.workspace);
    const AttentionBackwardArgs backward{
        .q = attention_input(args.inputs[0], types_[0]),
        .k = attention_input(args.inputs[1], types_[1]),
        .v = attention_input(args.inputs[2], types_[2]),
        .o = attention_input(args.inputs[kY], types_[3]),
        .d_o = attention_input(args.inputs[kDy], types_[3]),
        .lse = args.inputs[kLse],
        .sinks = ready.sinks,
        .masks = ready.masks,
        .dq = attention_output(args.outputs[0], types_[0]),
        .dk = attention_output(args.outputs[1], types_[1]),
        .dv = attention_output(args.outputs[2], types_[2]),
        .dsinks = ready.sinks ? args.outputs[3] : nullptr,
    };
    std::byte* workspace = args.workspace + masks_bytes_;
    if (tiles_)
      attention_backward(spec_, backward, workspace);
    else
      reference::attention_backward(spec_, backward, workspace);
  }

 private:
  AttentionSpec spec_;
  AttentionInputs inputs_;
  bool tiles_;
  Type types_[4];
  std::size_t masks_bytes_;
};

Verdict supports_reference(const NodeView& n) {
  if (n.type(0).dtype == DType::f16) return Verdict::no("takes f32, bf16 and f64, got f16");
  return Verdict::yes();
}

Verdict supports_tiles(const NodeView& n) {
  if (n.type(0).dtype == DType::f64) return Verdict::no("takes f32 and bf16, got f64");
  return supports_reference(n);
}

template <bool tiles>
std::unique_ptr<Kernel> make(const NodeView& n) {
  return std::make_unique<AttentionGradKernel>(n, tiles);
}

constexpr KernelChoice kChoices[] = {
    {.name = "tiles", .supports = supports_tiles, .make = make<true>, .writes_all = true},
    {.name = "reference", .supports = supports_reference, .make = make<false>, .writes_all = true},
};

}  // namespace

std::span<const KernelChoice> attention_grad_kernels() { return kChoices; }

}  // namespace lamina::cpu
