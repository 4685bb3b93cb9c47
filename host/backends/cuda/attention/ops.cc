// attention, attention_max and attention_grad: cuDNN where it is faster, one launch for one token
// in bf16, tiles by tensor cores for bf16, plain tiles for f32, f16 and f64.
#include <algorithm>
#include <cmath>

#include "backends/cuda/attention/choices.h"
#include "backends/cuda/attention/cudnn_ops.h"
#include "backends/cuda/attention/grad_plan.h"
#include "backends/cuda/attention/one_token_ops.h"
#include "backends/cuda/attention/plan.h"
#include "backends/cuda/attention/widened_rows.h"
#include "ops/operands.h"
#include "runtime/counting_kernel.h"

namespace lamina::cuda {
namespace {

double scale_of(const NodeView& n, std::int64_t width) {
  return n.f("scale") != 0 ? n.f("scale") : 1 / std::sqrt(static_cast<double>(width));
}

LogitParams logits_of(const NodeView& n, int slopes, int bias) {
  return {.scale = scale_of(n, n.type(0).dim(3)),
          .soft_cap = n.f("soft_cap"),
          .slopes = small_input(n, slopes),
          .bias = small_input(n, bias),
          .distances = n.has(bias) ? static_cast<std::int32_t>(n.type(bias).dim(1)) : 0};
}

gpu::Address input(const KernelArgs& args, int i) { return address(input_of(args, i)); }

// attention and attention_max, which have the same operands (ops/attention_max.cc).
namespace forward {

namespace in = operand::attention;
constexpr VisibilityInputs kSeen = {.positions = in::kPositions,
                                    .key_positions = in::kKeyPositions,
                                    .segments = in::kSegments,
                                    .key_segments = in::kKeySegments,
                                    .blocks = in::kBlocks,
                                    .mask = in::kMask,
                                    .start = in::kStart};

// Statistics have no values: their width is 0.
Verdict supports(const NodeView& n, std::int64_t value_width) {
  const Type &q = n.type(in::kQ), &k = n.type(in::kK);
  if (Verdict verdict = supports_sizes(q, k); !verdict) return verdict;
  if (forward_form(q.dtype, attention_sizes(q, k, value_width), false).kernel.empty())
    return Verdict::no("takes heads whose tiles fit into the GPU's shared memory, got " +
                       to_string(q));
  return Verdict::yes();
}

AttentionParams params_of(const NodeView& n, std::int64_t value_width) {
  AttentionParams p;
  p.size = attention_sizes(n.type(in::kQ), n.type(in::kK), value_width);
  p.seen = visibility_of(n, kSeen);
  p.seen.ring = n.i("ring") != 0;
  p.logits = logits_of(n, in::kSlopes, in::kBias);
  p.key_rows = p.size.kv_tokens;
  return p;
}

void bind(const KernelArgs& args, AttentionParams& p) {
  bind_visibility(args, kSeen, p.seen);
  p.q = input(args, in::kQ);
  p.k = input(args, in::kK);
  p.logits.slopes.data = input(args, in::kSlopes);
  p.logits.bias.data = input(args, in::kBias);
}

}  // namespace forward

namespace attention_op {

using forward::kSeen;
namespace in = operand::attention;

Verdict supports_any(const NodeView& n) { return forward::supports(n, n.type(in::kV).dim(3)); }
Verdict supports(const NodeView& n) {
  for (const int i : {in::kK, in::kV})
    if (n.type(i).storage)
      return Verdict::no("takes plain keys and values, got " + to_string(n.type(i)));
  return supports_any(n);
}
Verdict supports_widened(const NodeView& n) {
  for (const int i : {in::kK, in::kV})
    if (Verdict v = supports_rows(n.type(i)); !v) return v;
  return supports_any(n);
}

AttentionParams params_of(const NodeView& n) {
  AttentionParams p = forward::params_of(n, n.type(in::kV).dim(3));
  p.sinks = small_input(n, in::kSinks);
  return p;
}

void bind(const KernelArgs& args, AttentionParams& p) {
  forward::bind(args, p);
  p.v = input(args, in::kV);
  p.sinks.data = input(args, in::kSinks);
  p.y = address(args.outputs[0]);
  p.lse = address(args.outputs[1]);
}

AttentionRun tiles_of(const NodeView& n, Context& context, const AttentionParams& p, bool splits) {
  return {context,
          n.type(in::kQ).dtype,
          p,
          {.by_ids = restricts_by_ids(n, kSeen),
           .by_mask = n.has(in::kMask),
           .over_state = splits && n.has(in::kStart)}};
}

// Tiles of plain keys and values, which are widened before if they are stored in rows. Splits of
// the keys of a state are faster for few rows, and take a workspace.
class Tiles {
 public:
  Tiles(const NodeView& n, Context& context, const AttentionParams& params, bool splits = true)
      : run_(tiles_of(n, context, params, splits)),
        keys_(context, n.type(in::kK), n.type(in::kQ).dim(1)),
        values_(context, n.type(in::kV), n.type(in::kQ).dim(1)) {}

  std::size_t workspace_bytes() const {
    return keys_.workspace_bytes() + values_.workspace_bytes() + run_.workspace_bytes();
  }
  // `p` is bound.
  void run(const KernelArgs& args, AttentionParams p) const {
    std::byte* workspace = args.workspace;
    const void* starts = input_of(args, in::kStart);
    p.k = address(keys_.run(args, args.inputs[in::kK], starts, workspace));
    workspace += keys_.workspace_bytes();
    p.v = address(values_.run(args, args.inputs[in::kV], starts, workspace));
    workspace += values_.workspace_bytes();
    run_.run(args, p, workspace);
  }

 private:
  AttentionRun run_;
  WidenedRows keys_, values_;
};

std::unique_ptr<Kernel> make_tiles(const NodeView& n, Context& context, bool splits) {
  const AttentionParams params = params_of(n);
  const Tiles tiles(n, context, params, splits);
  return make_kernel(
      [p = params, tiles](const KernelArgs& args) mutable {
        bind(args, p);
        tiles.run(args, p);
      },
      tiles.workspace_bytes());
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return make_tiles(n, context, true);
}

// Operands that are not aligned are left to the tiles.
class OneTokenKernel final : public CountingKernel {
 public:
  OneTokenKernel(const NodeView& n, Context& context)
      : p_(params_of(n)), run_(context, p_, row_kind(n.type(in::kK))), tiles_(n, context, p_) {}

  std::size_t workspace_bytes() const override {
    return std::max(run_.workspace_bytes(), tiles_.workspace_bytes());
  }
  std::size_t counter_bytes() const override { return run_.counter_bytes(); }

  void run(const KernelArgs& args) override {
    bind(args, p_);
    if (counter_bytes() > 0) p_.ended = address(args.outputs.back());
    if (OneTokenRun::takes(p_))
      run_.run(args, p_, args.workspace);
    else
      tiles_.run(args, p_);
  }

 private:
  AttentionParams p_;
  OneTokenRun run_;
  Tiles tiles_;
};

std::unique_ptr<Kernel> make_one_token(const NodeView& n, Context& context) {
  return std::make_unique<OneTokenKernel>(n, context);
}

std::unique_ptr<Kernel> make_by_cudnn(const NodeView& n, Context& context) {
  return cudnn_attention(n, context, [&](bool rare) { return make_tiles(n, context, !rare); });
}

constexpr KernelChoice kChoices[] = {{"cudnn", cudnn_takes_attention, make_by_cudnn, 0, true},
                                     {"one token", takes_one_token, make_one_token},
                                     {"tiles", supports, make},
                                     {"widened tiles", supports_widened, make}};

}  // namespace attention_op

namespace attention_max_op {

using forward::kSeen;
namespace in = operand::attention_max;

Verdict supports(const NodeView& n) { return forward::supports(n, 0); }

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& q = n.type(in::kQ);
  AttentionParams p = forward::params_of(n, 0);
  const AttentionRun run(context, q.dtype, p,
                         {.by_ids = restricts_by_ids(n, kSeen), .by_mask = n.has(in::kMask)});
  const DType wide = sum_dtype(q.dtype);
  const Function head_max = function(context, "attention_head_max", wide);
  const std::size_t tops_bytes = aligned(static_cast<std::size_t>(q.dim(0) * q.dim(1) * q.dim(2)) *
                                         static_cast<std::size_t>(size_bytes(wide)));
  return make_kernel(
      [p, run, head_max, tops_bytes](const KernelArgs& args) mutable {
        forward::bind(args, p);
        p.top = address(args.workspace);
        run.run(args, p, args.workspace + tops_bytes);
        launch(args, head_max, {.blocks = p.size.heads, .threads = 256},
               HeadMaxParams{.tops = p.top,
                             .out = address(args.outputs[0]),
                             .batch = p.size.batch,
                             .heads = p.size.heads,
                             .tokens = p.size.q_tokens});
      },
      tops_bytes + run.workspace_bytes());
}

constexpr KernelChoice kChoices[] = {{"tiles", supports, make}};

}  // namespace attention_max_op

namespace attention_grad_op {

namespace in = operand::attention_grad;
constexpr VisibilityInputs kSeen = {.positions = in::kPositions,
                                    .key_positions = in::kKeyPositions,
                                    .segments = in::kSegments,
                                    .key_segments = in::kKeySegments,
                                    .blocks = in::kBlocks,
                                    .mask = in::kMask,
                                    .start = -1};

Verdict supports(const NodeView& n) {
  const Type &q = n.type(in::kQ), &k = n.type(in::kK);
  if (Verdict verdict = supports_sizes(q, k); !verdict) return verdict;
  if (!grad_fits(q.dtype, attention_sizes(q, k, n.type(in::kV).dim(3))))
    return Verdict::no("takes heads whose tiles fit into the GPU's shared memory, got " +
                       to_string(q));
  return Verdict::yes();
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type &q = n.type(in::kQ), &k = n.type(in::kK);
  AttentionGradParams p;
  p.size = attention_sizes(q, k, n.type(in::kV).dim(3));
  p.seen = visibility_of(n, kSeen);
  p.logits = logits_of(n, in::kSlopes, in::kBias);
  p.sinks = small_input(n, in::kSinks);
  const AttentionGradRun run(context, q.dtype, p,
                             {.by_ids = restricts_by_ids(n, kSeen),
                              .by_mask = n.has(in::kMask),
                              .slopes = n.has(in::kSlopes),
                              .bias = n.has(in::kBias)});
  return make_kernel(
      [p, run](const KernelArgs& args) mutable {
        bind_visibility(args, kSeen, p.seen);
        p.q = input(args, in::kQ);
        p.k = input(args, in::kK);
        p.v = input(args, in::kV);
        p.y = input(args, in::kY);
        p.dy = input(args, in::kDy);
        p.lse = input(args, in::kLse);
        p.sinks.data = input(args, in::kSinks);
        p.logits.slopes.data = input(args, in::kSlopes);
        p.logits.bias.data = input(args, in::kBias);
        p.dq = address(args.outputs[0]);
        p.dk = address(args.outputs[1]);
        p.dv = address(args.outputs[2]);
        p.dsinks = address(args.outputs[3]);
        p.dslopes = address(args.outputs[4]);
        p.dbias = address(args.outputs[5]);
        run.run(args, p, args.workspace);
      },
      run.workspace_bytes());
}

std::unique_ptr<Kernel> make_by_cudnn(const NodeView& n, Context& context) {
  return cudnn_attention_grad(n, context, [&](bool) { return make(n, context); });
}

constexpr KernelChoice kChoices[] = {{"cudnn", cudnn_takes_attention_grad, make_by_cudnn, 0, true},
                                     {"tiles", supports, make}};

}  // namespace attention_grad_op

}  // namespace

KernelTable attention_kernels() {
  static const OpKernels ops[] = {
      {"attention", attention_op::kChoices},
      {"attention_grad", attention_grad_op::kChoices},
      {"attention_mass", attention_mass_choices()},
      {"attention_max", attention_max_op::kChoices},
      {"compressed_attention_step", compressed_attention_step_choices()},
      {"index_scores", index_scores_choices()},
      {"index_scores_grad", index_scores_grad_choices()},
      {"index_scores_step", index_scores_step_choices()},
      {"latent_attention_step", latent_attention_step_choices()},
      {"moba_mask", moba_mask_choices()},
      {"top_k_mask", top_k_mask_choices()},
  };
  return ops;
}

}  // namespace lamina::cuda
