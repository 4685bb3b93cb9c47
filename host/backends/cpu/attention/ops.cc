// The kernels of attention, attention_grad and attention_mass.
#include <cmath>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/inputs.h"
#include "backends/cpu/attention/mass.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

// Tiles with an online softmax for f32 and bf16, plain loops in double for f64; over
// decode state when there is a start.
namespace attention_op {

constexpr int kStart = 8;
constexpr AttentionPositions kWhere = {.positions = 3,
                                       .key_positions = 4,
                                       .segments = 5,
                                       .key_segments = 6,
                                       .sinks = 7,
                                       .blocks = 9,
                                       .mask = 10};

// One run of the op; `tiles` chooses between the kernels and their reference.
class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const NodeView& n, bool tiles)
      : spec_(attention_spec(n)),
        by_head_(mask_by_head(n, kWhere.mask)),
        sinks_dtype_(sinks_dtype(n, kWhere.sinks)),
        tiles_(tiles),
        ring_(n.i("ring") != 0),
        has_start_(n.has(kStart)),
        types_{n.type(0), n.type(1), n.type(2), n.out_type()} {}

  std::size_t workspace_bytes() const override {
    if (!tiles_) return reference::attention_forward_workspace_bytes(spec_);
    return has_start_ ? attention_cached_workspace_bytes(spec_)
                      : attention_forward_workspace_bytes(spec_);
  }

  void run(const KernelArgs& args) override {
    const AttentionForwardArgs forward{
        .q = attention_input(args.inputs[0], types_[0]),
        .k = attention_input(args.inputs[1], types_[1]),
        .v = attention_input(args.inputs[2], types_[2]),
        .sinks = optional_input(args, kWhere.sinks),
        .sinks_dtype = sinks_dtype_,
        .masks = attention_masks(args, kWhere, by_head_),
        .o = attention_output(args.outputs[0], types_[3]),
        .lse = args.outputs[1],
    };
    const AttentionCache cache{static_cast<const std::int32_t*>(optional_input(args, kStart)),
                               ring_};
    if (!tiles_)
      reference::attention_forward(spec_, forward, has_start_ ? &cache : nullptr, args.workspace);
    else if (has_start_)
      attention_cached(spec_, forward, cache, args.workspace);
    else
      attention_forward(spec_, forward, args.workspace);
  }

 private:
  AttentionSpec spec_;
  bool by_head_;
  DType sinks_dtype_;
  bool tiles_, ring_, has_start_;
  Type types_[4];
};

Verdict supports_reference(const NodeView& n) {
  if (n.type(0).dtype == DType::f16 || sinks_dtype(n, kWhere.sinks) == DType::f16)
    return Verdict::no("takes f32, bf16 and f64, got f16");
  if (n.has(kStart) && (n.has(kWhere.segments) || n.has(kWhere.blocks) || n.has(kWhere.positions)))
    return Verdict::no("decode state goes without segments, blocks and positions");
  return Verdict::yes();
}

Verdict supports_tiles(const NodeView& n) {
  if (n.type(0).dtype == DType::f64) return Verdict::no("takes f32 and bf16, got f64");
  return supports_reference(n);
}

template <bool tiles>
std::unique_ptr<Kernel> make(const NodeView& n) {
  return std::make_unique<AttentionKernel>(n, tiles);
}

constexpr KernelChoice kChoices[] = {
    {"tiles", supports_tiles, make<true>},
    {"reference", supports_reference, make<false>},
};

}  // namespace attention_op

// Tiles with recomputed probabilities for f32 and bf16, plain loops in double for
// f64.
namespace attention_grad_op {

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
        by_head_(mask_by_head(n, kWhere.mask)),
        sinks_dtype_(sinks_dtype(n, kWhere.sinks)),
        tiles_(tiles),
        types_{n.type(0), n.type(1), n.type(2), n.type(kY)} {}

  std::size_t workspace_bytes() const override {
    return tiles_ ? attention_backward_workspace_bytes(spec_)
                  : reference::attention_backward_workspace_bytes(spec_);
  }

  void run(const KernelArgs& args) override {
    const AttentionBackwardArgs backward{
        .q = attention_input(args.inputs[0], types_[0]),
        .k = attention_input(args.inputs[1], types_[1]),
        .v = attention_input(args.inputs[2], types_[2]),
        .o = attention_input(args.inputs[kY], types_[3]),
        .d_o = attention_input(args.inputs[kDy], types_[3]),
        .lse = args.inputs[kLse],
        .sinks = optional_input(args, kWhere.sinks),
        .sinks_dtype = sinks_dtype_,
        .masks = attention_masks(args, kWhere, by_head_),
        .dq = attention_output(args.outputs[0], types_[0]),
        .dk = attention_output(args.outputs[1], types_[1]),
        .dv = attention_output(args.outputs[2], types_[2]),
        .dsinks = optional_input(args, kWhere.sinks) ? args.outputs[3] : nullptr,
    };
    if (tiles_)
      attention_backward(spec_, backward, args.workspace);
    else
      reference::attention_backward(spec_, backward, args.workspace);
  }

 private:
  AttentionSpec spec_;
  bool by_head_;
  DType sinks_dtype_;
  bool tiles_;
  Type types_[4];
};

Verdict supports_reference(const NodeView& n) {
  if (n.type(0).dtype == DType::f16 || sinks_dtype(n, kWhere.sinks) == DType::f16)
    return Verdict::no("takes f32, bf16 and f64, got f16");
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

}  // namespace attention_grad_op

// Softmaxes of a block of queries, head by head, added up where they go.
namespace attention_mass_op {

class AttentionMassKernel final : public Kernel {
 public:
  explicit AttentionMassKernel(const NodeView& n)
      : spec_{.dtype = n.type(0).dtype,
              .batch = n.type(0).dim(0),
              .q_tokens = n.type(0).dim(1),
              .k_tokens = n.type(1).dim(1),
              .heads = n.type(0).dim(2),
              .dim = n.type(0).dim(3),
              .scale = n.f("scale") != 0 ? n.f("scale")
                                         : 1 / std::sqrt(static_cast<double>(n.type(0).dim(3)))} {}

  std::size_t workspace_bytes() const override { return attention_mass_workspace_bytes(spec_); }

  void run(const KernelArgs& args) override {
    attention_mass(spec_,
                   {.q = args.inputs[0],
                    .k = args.inputs[1],
                    .keep = static_cast<const std::uint8_t*>(args.inputs[2]),
                    .p = static_cast<float*>(args.outputs[0])},
                   args.workspace);
  }

 private:
  MassSpec spec_;
};

std::unique_ptr<Kernel> make(const NodeView& n) { return std::make_unique<AttentionMassKernel>(n); }

constexpr KernelChoice kChoices[] = {{"blocks", only_f32_and_bf16, make}};

}  // namespace attention_mass_op

constexpr OpKernels kOps[] = {
    {"attention", attention_op::kChoices},
    {"attention_grad", attention_grad_op::kChoices},
    {"attention_mass", attention_mass_op::kChoices},
};

}  // namespace

KernelTable attention_kernels() { return kOps; }

}  // namespace lamina::cpu
