// causal_conv1d, causal_conv1d_grad and causal_conv1d_step.
#include <initializer_list>
#include <optional>
#include <string>

#include "backends/cuda/access.h"
#include "backends/cuda/conv/params.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/typed.h"
#include "core/round_up.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

// The inputs that all three ops have, at the same places (host/ops/conv_taps.cc).
namespace in = operand::causal_conv1d;

constexpr int kThreads = 256;

Conv1dParams conv_of(const NodeView& n) {
  const Type& x = n.type(in::kX);
  const std::int64_t width = n.type(in::kW).dim(1), dilation = n.i("dilation");
  return {.batch = x.dim(0),
          .tokens = x.dim(1),
          .channels = x.dim(2),
          .reach = (width - 1) * dilation,
          .dilation = dilation,
          .width = static_cast<int>(width),
          .silu = n.s("activation") == "silu",
          .x = {},
          .w = typed(n.type(in::kW).dtype),
          .bias = typed(n.has(in::kBias) ? n.type(in::kBias).dtype : DType::f32),
          .segments = {}};
}

void set_inputs(Conv1dParams& p, const KernelArgs& args) {
  p.x = address(args.inputs[in::kX]);
  p.w.at = address(args.inputs[in::kW]);
  p.bias.at = address(args.inputs[in::kBias]);
}

Verdict supports(const NodeView& n) {
  constexpr std::int64_t kMostTaps = 1 << 20;
  if (n.type(in::kW).dim(1) > kMostTaps)
    return Verdict::no("takes up to 2^20 taps, got w " + to_string(n.type(in::kW)));
  return only_f32_and_bf16(n);
}

// Number of tiles of all rows.
std::int64_t num_tiles(const Conv1dParams& p, std::int64_t tile) {
  return p.batch * divide_up(p.tokens, tile);
}

// Launches a thread for `count` groups of `group` channels each.
LaunchShape threads_for(const Conv1dParams& p, std::int64_t count, std::int64_t group,
                        std::int64_t blocks_y = 1) {
  return {.blocks = divide_up(count * (p.channels / group), kThreads),
          .threads = kThreads,
          .blocks_y = blocks_y};
}

// Two forms of a kernel: `name`, and <name>_wide, whose threads load and store `most` channels
// together where the number of channels and the addresses allow it.
class ChannelForms {
 public:
  ChannelForms(Context& context, const std::string& name, const Type& x, std::int64_t most)
      : most_(x.dim(2) % most == 0 ? most : 1),
        vector_bytes_(static_cast<int>(most_) * size_bytes(x.dtype)),
        single_(function(context, name, x.dtype)) {
    if (most_ > 1) wide_ = function(context, name + "_wide", x.dtype);
  }
  // Launches a thread for each tile and its channels. `rows`: all operands with channels.
  template <typename Params>
  void run(const KernelArgs& args, const Params& p, std::int64_t tiles,
           std::initializer_list<gpu::Address> rows) const {
    const bool is_wide = wide_ && begin_vectors(rows, vector_bytes_);
    launch(args, is_wide ? wide_ : single_, threads_for(p.conv, tiles, is_wide ? most_ : 1), p);
  }

 private:
  std::int64_t most_;
  int vector_bytes_;
  Function single_, wide_ = nullptr;
};

// The forward kernel: its loads have up to 16 bytes.
struct Forward {
  ChannelForms forms;

  Forward(const NodeView& n, Context& context)
      : forms(context, "conv1d_forward", n.type(in::kX), vector_elements(n.type(in::kX).dtype)) {}
  void run(const KernelArgs& args, const Conv1dForwardParams& p) const {
    forms.run(args, p, num_tiles(p.conv, kConvTokens), {p.conv.x, p.y, p.window, p.new_window});
  }
};

namespace causal_conv1d_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  Conv1dForwardParams p{};
  p.conv = conv_of(n);
  const bool apart = n.has(in::kSegments) && !n.i("across");
  return make_kernel([p, apart, forward = Forward(n, context)](const KernelArgs& args) mutable {
    set_inputs(p.conv, args);
    if (apart) p.conv.segments = address(args.inputs[in::kSegments]);
    p.y = address(args.outputs[0]);
    forward.run(args, p);
  });
}

constexpr KernelChoice kChoices[] = {{"channels", supports, make}};

}  // namespace causal_conv1d_op

namespace causal_conv1d_grad_op {

bool has_few_taps(const Conv1dParams& p) { return p.width <= kConvTaps && p.dilation == 1; }

class GradKernel final : public Kernel {
 public:
  GradKernel(const NodeView& n, Context& context)
      : apart_(n.has(in::kSegments) && !n.i("across")), has_bias_(n.has(in::kBias)) {
    p_.conv = conv_of(n);
    const DType dtype = n.type(in::kX).dtype;
    if (has_few_taps(p_.conv)) {
      few_.emplace(context, "conv1d_backward_few", n.type(in::kX), 2);
    } else {
      sums_ = function(context, "conv1d_backward_sums", dtype);
      x_ = function(context, "conv1d_backward_x", dtype);
      taps_ = function(context, "conv1d_backward_taps", dtype);
    }
    add_ = function(context, "conv1d_add_parts");
    divide_into_parts();
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(dsum_bytes() + p_.num_parts * part_bytes());
  }
  std::string detail() const override { return few_ ? "taps in registers" : "any taps"; }

  void run(const KernelArgs& args) override {
    set_inputs(p_.conv, args);
    if (apart_) p_.conv.segments = address(args.inputs[in::kSegments]);
    p_.dy = address(args.inputs[operand::causal_conv1d_grad::kDy]);
    p_.dx = address(args.outputs[0]);
    p_.dw = address(args.outputs[1]);
    p_.dbias = has_bias_ ? address(args.outputs[2]) : gpu::Address{};
    p_.dsum = address(args.workspace);
    p_.parts = address(args.workspace + dsum_bytes());
    const std::int64_t tiles = num_tiles(p_.conv, kConvGradTokens);
    if (few_) {
      few_->run(args, p_, tiles, {p_.conv.x, p_.dy, p_.dx});
    } else {
      const std::int64_t tokens = p_.conv.batch * p_.conv.tokens;
      launch(args, sums_, threads_for(p_.conv, tokens, 1), p_);
      launch(args, x_, threads_for(p_.conv, tokens, 1), p_);
      launch(args, taps_, threads_for(p_.conv, p_.num_parts, 1, rows()), p_);
    }
    launch(args, add_,
           {.blocks = divide_up(p_.conv.channels, 32), .threads = kThreads, .blocks_y = rows()},
           p_);
  }

 private:
  std::int64_t dsum_bytes() const {
    return few_ ? 0 : round_up(4 * p_.conv.batch * p_.conv.tokens * p_.conv.channels, 64);
  }
  std::int64_t part_bytes() const { return 4 * (p_.conv.width + 1) * p_.conv.channels; }
  // With few taps a part is a tile.
  void divide_into_parts() {
    constexpr std::int64_t kMostBytes = 1 << 20;  // enough sums for all threads of a GPU
    const std::int64_t tiles = num_tiles(p_.conv, kConvGradTokens);
    const std::int64_t most =
        few_ ? tiles
             : std::max<std::int64_t>(kMostBytes / std::max<std::int64_t>(part_bytes(), 1), 1);
    p_.tiles_per_part =
        std::max<std::int64_t>(divide_up(tiles, std::max<std::int64_t>(most, 1)), 1);
    p_.num_parts = divide_up(tiles, p_.tiles_per_part);
  }
  // Blocks of a grid in its second dimension, which loop over taps and the bias.
  std::int64_t rows() const { return std::min(p_.conv.width + 1, 64); }

  Conv1dBackwardParams p_{};
  const bool apart_, has_bias_;
  std::optional<ChannelForms> few_;
  Function sums_ = nullptr, x_ = nullptr, taps_ = nullptr, add_ = nullptr;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return std::make_unique<GradKernel>(n, context);
}

constexpr KernelChoice kChoices[] = {{"channels", supports, make}};

}  // namespace causal_conv1d_grad_op

namespace causal_conv1d_step_op {

namespace step = operand::causal_conv1d_step;

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  Conv1dForwardParams p{};
  p.conv = conv_of(n);
  // The forward kernel replaces the window if there is one tile; other tiles would still read it.
  const bool apart = p.conv.tokens == 0 || p.conv.tokens > kConvTokens;
  const Function replace = function(context, "conv1d_window", n.type(in::kX).dtype);
  return make_kernel(
      [p, apart, replace, forward = Forward(n, context)](const KernelArgs& args) mutable {
        set_inputs(p.conv, args);
        p.start = address(args.inputs[step::kStart]);
        p.count = address(args.inputs[step::kCount]);
        p.window = address(args.inputs[step::kWindow]);
        p.new_window = address(args.outputs[1]);
        p.y = address(args.outputs[0]);
        forward.run(args, p);
        if (apart) launch(args, replace, threads_for(p.conv, p.conv.batch, 1), p);
      });
}

constexpr KernelChoice kChoices[] = {
    {.name = "channels",
     .supports = supports,
     .make = make,
     .in_place = in_place_of(step::kWindow),
     .writes_all = true},
};

}  // namespace causal_conv1d_step_op

constexpr OpKernels kOps[] = {
    {"causal_conv1d", causal_conv1d_op::kChoices},
    {"causal_conv1d_grad", causal_conv1d_grad_op::kChoices},
    {"causal_conv1d_step", causal_conv1d_step_op::kChoices},
};

}  // namespace

KernelTable conv_kernels() { return kOps; }

}  // namespace lamina::cuda
