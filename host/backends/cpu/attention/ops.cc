// The kernels of attention, attention_grad and attention_mass.
#include <cmath>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/inputs.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

// Tiles with an online softmax for f32 and bf16, plain loops in double for f64; over decode state
// if a start is given.
namespace attention_op {

namespace in = operand::attention;
constexpr AttentionPositions kWhere = {.positions = in::kPositions,
                                       .key_positions = in::kKeyPositions,
                                       .segments = in::kSegments,
                                       .key_segments = in::kKeySegments,
                                       .blocks = in::kBlocks,
                                       .mask = in::kMask};
constexpr BiasInputs kBias = {.slopes = in::kSlopes, .table = in::kBias};

// One run of the op; `tiles` selects tiles or the reference.
class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const NodeView& n, bool tiles)
      : spec_(attention_spec(n)),
        by_head_(mask_by_head(n, in::kMask)),
        sinks_dtype_(sinks_dtype(n, in::kSinks)),
        bias_(kBias.of(n)),
        tiles_(tiles),
        ring_(n.i("ring") != 0),
        has_start_(n.has(in::kStart)),
        types_{n.type(in::kQ), n.type(in::kK), n.type(in::kV), n.out_type()} {
    kBias.add_to(n, spec_);
  }

  std::size_t workspace_bytes() const override {
    if (!tiles_) return reference::attention_forward_workspace_bytes(spec_);
    return has_start_ ? attention_cached_workspace_bytes(spec_)
                      : attention_forward_workspace_bytes(spec_);
  }

  void run(const KernelArgs& args) override {
    AttentionBias bias = bias_;
    kBias.bind(args, bias);
    const AttentionForwardArgs forward{
        .q = attention_input(args.inputs[in::kQ], types_[0]),
        .k = attention_input(args.inputs[in::kK], types_[1]),
        .v = attention_input(args.inputs[in::kV], types_[2]),
        .sinks = args.inputs[in::kSinks],
        .sinks_dtype = sinks_dtype_,
        .bias = bias,
        .masks = attention_masks(args, kWhere, by_head_),
        .o = attention_output(args.outputs[0], types_[3]),
        .lse = args.outputs[1],
    };
    const AttentionCache cache{static_cast<const std::int32_t*>(args.inputs[in::kStart]), ring_};
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
  AttentionBias bias_;
  bool tiles_, ring_, has_start_;
  Type types_[4];
};

Verdict supports_any(const NodeView& n) {
  const AttentionBias bias = kBias.of(n);
  for (DType dtype :
       {n.type(in::kQ).dtype, sinks_dtype(n, in::kSinks), bias.slopes_dtype, bias.table_dtype})
    if (dtype == DType::f16) return Verdict::no("takes f32, bf16 and f64, got f16");
  if (n.has(in::kStart) && (n.has(in::kSegments) || n.has(in::kBlocks) || n.has(in::kPositions)))
    return Verdict::no("takes no segments, blocks or positions with decode state");
  return Verdict::yes();
}

Verdict supports_tiles(const NodeView& n) {
  if (n.type(in::kQ).dtype == DType::f64) return Verdict::no("takes f32 and bf16, got f64");
  const Type &k = n.type(in::kK), &v = n.type(in::kV);
  if (!k.storage != !v.storage || (k.storage && cached_rows(k) != cached_rows(v)))
    return Verdict::no("takes keys and values in rows of one kind, got " + to_string(k) + " and " +
                       to_string(v));
  return supports_any(n);
}

Verdict supports_reference(const NodeView& n) {
  if (n.type(in::kK).storage || n.type(in::kV).storage)
    return Verdict::no("takes plain keys and values, got " + to_string(n.type(in::kK)) + " and " +
                       to_string(n.type(in::kV)));
  return supports_any(n);
}

template <bool tiles>
std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
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

namespace in = operand::attention_grad;
constexpr AttentionPositions kWhere = {.positions = in::kPositions,
                                       .key_positions = in::kKeyPositions,
                                       .segments = in::kSegments,
                                       .key_segments = in::kKeySegments,
                                       .blocks = in::kBlocks,
                                       .mask = in::kMask};
constexpr BiasInputs kBias = {.slopes = in::kSlopes, .table = in::kBias};

class AttentionGradKernel final : public Kernel {
 public:
  AttentionGradKernel(const NodeView& n, bool tiles)
      : spec_(attention_spec(n)),
        by_head_(mask_by_head(n, in::kMask)),
        sinks_dtype_(sinks_dtype(n, in::kSinks)),
        bias_(kBias.of(n)),
        tiles_(tiles),
        types_{n.type(in::kQ), n.type(in::kK), n.type(in::kV), n.type(in::kY)} {
    kBias.add_to(n, spec_);
  }

  std::size_t workspace_bytes() const override {
    return tiles_ ? attention_backward_workspace_bytes(spec_)
                  : reference::attention_backward_workspace_bytes(spec_);
  }

  void run(const KernelArgs& args) override {
    AttentionBias bias = bias_;
    kBias.bind(args, bias);
    const AttentionBackwardArgs backward{
        .q = attention_input(args.inputs[in::kQ], types_[0]),
        .k = attention_input(args.inputs[in::kK], types_[1]),
        .v = attention_input(args.inputs[in::kV], types_[2]),
        .o = attention_input(args.inputs[in::kY], types_[3]),
        .d_o = attention_input(args.inputs[in::kDy], types_[3]),
        .lse = args.inputs[in::kLse],
        .sinks = args.inputs[in::kSinks],
        .sinks_dtype = sinks_dtype_,
        .bias = bias,
        .masks = attention_masks(args, kWhere, by_head_),
        .dq = attention_output(args.outputs[0], types_[0]),
        .dk = attention_output(args.outputs[1], types_[1]),
        .dv = attention_output(args.outputs[2], types_[2]),
        .dsinks = args.inputs[in::kSinks] ? args.outputs[3] : nullptr,
        .dslopes = bias.slopes ? args.outputs[4] : nullptr,
        .dtable = bias.table ? args.outputs[5] : nullptr,
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
  AttentionBias bias_;
  bool tiles_;
  Type types_[4];
};

Verdict supports_reference(const NodeView& n) {
  const AttentionBias bias = kBias.of(n);
  for (DType dtype :
       {n.type(in::kQ).dtype, sinks_dtype(n, in::kSinks), bias.slopes_dtype, bias.table_dtype})
    if (dtype == DType::f16) return Verdict::no("takes f32, bf16 and f64, got f16");
  return Verdict::yes();
}

Verdict supports_tiles(const NodeView& n) {
  if (n.type(in::kQ).dtype == DType::f64) return Verdict::no("takes f32 and bf16, got f64");
  return supports_reference(n);
}

template <bool tiles>
std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<AttentionGradKernel>(n, tiles);
}

constexpr KernelChoice kChoices[] = {
    {.name = "tiles", .supports = supports_tiles, .make = make<true>, .writes_all = true},
    {.name = "reference", .supports = supports_reference, .make = make<false>, .writes_all = true},
};

}  // namespace attention_grad_op

// Computes the softmaxes of a block of queries head by head and adds them to the result in place.
namespace attention_mass_op {

namespace in = operand::attention_mass;

class AttentionMassKernel final : public Kernel {
 public:
  explicit AttentionMassKernel(const NodeView& n)
      : spec_{.dtype = n.type(in::kQ).dtype,
              .batch = n.type(in::kQ).dim(0),
              .q_tokens = n.type(in::kQ).dim(1),
              .k_tokens = n.type(in::kK).dim(1),
              .heads = n.type(in::kQ).dim(2),
              .dim = n.type(in::kQ).dim(3),
              .scale = n.f("scale") != 0
                           ? n.f("scale")
                           : 1 / std::sqrt(static_cast<double>(n.type(in::kQ).dim(3)))} {}

  std::size_t workspace_bytes() const override { return attention_mass_workspace_bytes(spec_); }

  void run(const KernelArgs& args) override {
    attention_mass(spec_,
                   {.q = args.inputs[in::kQ],
                    .k = args.inputs[in::kK],
                    .keep = static_cast<const std::uint8_t*>(args.inputs[in::kMask]),
                    .p = static_cast<float*>(args.outputs[0])},
                   args.workspace);
  }

 private:
  MassSpec spec_;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<AttentionMassKernel>(n);
}

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
