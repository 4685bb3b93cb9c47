#include "backends/cuda/attention/cudnn_ops.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cuda/access.h"
#include "backends/cuda/attention/cudnn_params.h"
#include "backends/cuda/attention/plan.h"
#include "backends/cuda/context.h"
#include "backends/cuda/detailed_kernel.h"
#include "backends/cuda/dnn/attention.h"
#include "backends/cuda/dnn/use.h"
#include "backends/cuda/queue.h"
#include "core/log.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

using dnn::DnnAttentionSpec;

// cuDNN's engines compute 128 queries at a time: with fewer, tiles that split the keys are faster.
constexpr std::int64_t kFewQueries = 128;
constexpr std::int64_t kWidest = 256;

Address number(const void* at) { return reinterpret_cast<Address>(at); }

// The inputs of one op by their numbers.
struct Inputs {
  int q, k, v, segments, key_segments;
  int start;  // -1: the op has none
  int sinks;
  std::array<int, 6> refused;  // optional inputs
};

constexpr Inputs forward_inputs() {
  namespace in = operand::attention;
  return {in::kQ,
          in::kK,
          in::kV,
          in::kSegments,
          in::kKeySegments,
          in::kStart,
          in::kSinks,
          {in::kMask, in::kBlocks, in::kSlopes, in::kBias, in::kPositions, in::kKeyPositions}};
}
constexpr Inputs grad_inputs() {
  namespace in = operand::attention_grad;
  return {in::kQ,
          in::kK,
          in::kV,
          in::kSegments,
          in::kKeySegments,
          -1,
          in::kSinks,
          {in::kMask, in::kBlocks, in::kSlopes, in::kBias, in::kPositions, in::kKeyPositions}};
}

DnnAttentionSpec spec_of(const NodeView& n, const Inputs& in, bool backward) {
  const Type &q = n.type(in.q), &k = n.type(in.k);
  DnnAttentionSpec spec{.backward = backward,
                        .dtype = q.dtype,
                        .batch = q.dim(0),
                        .q_tokens = q.dim(1),
                        .kv_tokens = k.dim(1),
                        .heads = q.dim(2),
                        .kv_heads = k.dim(2),
                        .width = q.dim(3),
                        .value_width = n.type(in.v).dim(3),
                        .scale = n.f("scale"),
                        .causal = n.i("causal") != 0,
                        .window = n.i("window"),
                        .segments = n.has(in.segments),
                        .over_state = in.start >= 0 && n.has(in.start),
                        .sinks = n.has(in.sinks)};
  if (spec.scale == 0) spec.scale = 1 / std::sqrt(static_cast<double>(spec.width));
  if (!spec.over_state && spec.window >= spec.kv_tokens) {
    spec.causal = true;
    spec.window = 0;
  }
  return spec;
}

// Returns the problem of one of the equal calls that compute all gradients, or of a row if even the
// dS of one takes too many bytes.
DnnAttentionSpec part_of(DnnAttentionSpec spec) {
  const std::int64_t batch = spec.batch;
  for (std::int64_t calls = 1; calls <= batch; ++calls) {
    if (batch % calls != 0) continue;
    spec.batch = batch / calls;
    if (dnn::logit_gradient_bytes(spec) <= most_logit_gradient_bytes) break;
  }
  return spec;
}

Verdict takes_mask(const NodeView& n, const Inputs& in, const DnnAttentionSpec& spec,
                   dnn::Wanted wanted) {
  for (const int input : in.refused)
    if (n.has(input))
      return Verdict::no("takes causal masks, windows, segments and sinks, without other inputs");
  if (n.f("soft_cap") != 0 || n.i("chunk") != 0)
    return Verdict::no("takes no soft cap and no chunks");
  if (spec.over_state && (n.i("ring") != 0 || spec.segments || !(spec.causal || spec.window > 0)))
    return Verdict::no("takes causal masks and windows over decode state, without rings");
  if (spec.sinks && spec.backward) return Verdict::no("computes no gradients of sinks");
  if (spec.segments && spec.backward)
    return Verdict::no("computes other gradients than the definition with segments");
  if (spec.sinks && spec.segments) return Verdict::no("takes no sinks with segments");
  if (wanted == dnn::Wanted::all) return Verdict::yes();
  if (spec.segments)
    return Verdict::no("has not been measured with segments; LAMINA_GPU_CUDNN=all takes them");
  return Verdict::yes();
}

Verdict takes(const NodeView& n, const Inputs& in, bool backward) {
  const dnn::Wanted wanted = dnn::wanted();
  if (wanted == dnn::Wanted::never) return Verdict::no("is switched off by LAMINA_GPU_CUDNN=0");
  const Type &q = n.type(in.q), &k = n.type(in.k);
  if (q.dtype != DType::bf16 && q.dtype != DType::f16)
    return Verdict::no(fmt::format("takes bf16 and f16, got {}", lamina::name(q.dtype)));
  if (k.storage || n.type(in.v).storage)
    return Verdict::no("takes plain keys, got " + to_string(k));
  const DnnAttentionSpec spec = spec_of(n, in, backward);
  if (spec.width % 8 != 0 || spec.value_width % 8 != 0 || spec.width > kWidest ||
      spec.value_width > kWidest)
    return Verdict::no(
        fmt::format("takes widths of heads that are multiples of 8 up to {}, got {} "
                    "and {}",
                    kWidest, spec.width, spec.value_width));
  if (q.shape.num_elements() == 0 || k.shape.num_elements() == 0 || spec.value_width == 0)
    return Verdict::no("takes no empty operands");
  // lse of a layer is part of a stacked result in training, and cuDNN reads vectors of 16 bytes.
  const DnnAttentionSpec part = backward ? part_of(spec) : spec;
  if ((backward || spec.segments) && part.batch * spec.heads * spec.q_tokens % 4 != 0)
    return Verdict::no("takes a number of rows of heads that is a multiple of 4");
  if (Verdict verdict = takes_mask(n, in, spec, wanted); !verdict) return verdict;
  const std::int64_t fewest = wanted == dnn::Wanted::all ? 2 : kFewQueries;
  if (spec.q_tokens < fewest)
    return Verdict::no(
        fmt::format("takes {} or more queries per row, got {}", fewest, spec.q_tokens));
  if (backward && dnn::logit_gradient_bytes(part) > most_logit_gradient_bytes)
    return Verdict::no(fmt::format("needs {} MiB per row for sums in a fixed order; takes up to {}",
                                   dnn::logit_gradient_bytes(part) >> 20,
                                   most_logit_gradient_bytes >> 20));
  return dnn::usable(backward);
}

dnn::Planned plan_of(CudaContext& context, const DnnAttentionSpec& spec) {
  dnn::Planned planned = context.dnn().plan(spec);
  if (!planned.plan)
    log::warning(
        "cuDNN {} refuses attention of [{}, {}, {}, {}] that lamina expects it to take: {}; "
        "LAMINA_GPU_CUDNN=0 switches it off",
        dnn::version_text(context.dnn().api().version()), spec.batch, spec.q_tokens, spec.heads,
        spec.width, planned.why_not);
  return planned;
}

const std::string kForward = "cudnn attention", kBackward = "cudnn attention_grad";

// cuDNN reads vectors of 16 bytes: calls with views that begin elsewhere are left to the tiles.
class CudnnKernel : public Kernel {
 public:
  CudnnKernel(CudaContext& context, const NodeView&, const DnnAttentionSpec& spec,
              dnn::Planned planned, std::unique_ptr<Kernel> tiles)
      : library_(context.dnn()),
        spec_(spec),
        plan_(std::move(planned.plan)),
        tiles_(std::move(tiles)) {
    // Only the rows of a batch have padding, which may be past the capacity of the state.
    if (spec.segments || (spec.over_state && spec.batch > 1))
      clear_ = function(context, "attention_clear_unseen");
  }
  std::size_t workspace_bytes() const final {
    return std::max(own_workspace_bytes() + plan_->workspace_bytes(), tiles_->workspace_bytes());
  }
  void run(const KernelArgs& args) final {
    if (is_aligned(args))
      run_aligned(args);
    else
      tiles_->run(args);
  }

 protected:
  virtual bool is_aligned(const KernelArgs& args) const = 0;
  virtual void run_aligned(const KernelArgs& args) = 0;
  // Bytes for lamina's kernels around the plan.
  virtual std::size_t own_workspace_bytes() const { return 0; }

  // `name` as in CudaQueue::note().
  void run_plan(const KernelArgs& args, const std::string& name,
                dnn::AttentionOperands operands) const {
    auto& queue = static_cast<CudaQueue&>(*args.queue);
    plan_->run(library_, queue.stream(), operands);
    queue.note(name);
  }

  // Rows of padding get zeros, and lse -infinity: cuDNN leaves rows past `q_lengths` undefined.
  void clear_unseen(const KernelArgs& args, void* rows, void* lse, const void* segments,
                    const void* key_segments, gpu::Address q_lengths = {}) const {
    if (!clear_) return;
    const std::int64_t count = spec_.batch * spec_.q_tokens * spec_.heads;
    launch(args, clear_, {.blocks = grid_for(count, 8), .threads = 256},
           ClearUnseenParams{.rows = address(rows),
                             .lse = address(lse),
                             .q_lengths = q_lengths,
                             .segments = address(segments),
                             .key_segments = address(key_segments),
                             .count = count,
                             .tokens = static_cast<std::int32_t>(spec_.q_tokens),
                             .keys = static_cast<std::int32_t>(spec_.kv_tokens),
                             .heads = static_cast<std::int32_t>(spec_.heads),
                             .width = static_cast<std::int32_t>(spec_.value_width),
                             .causal = spec_.causal || spec_.window > 0,
                             .window = static_cast<std::int32_t>(spec_.window)});
  }

  dnn::DnnLibrary& library_;
  const DnnAttentionSpec spec_;
  const std::shared_ptr<const dnn::AttentionPlan> plan_;
  const std::unique_ptr<Kernel> tiles_;
  Function clear_ = nullptr;
};

class Forward final : public CudnnKernel {
 public:
  Forward(CudaContext& context, const NodeView& n, const DnnAttentionSpec& spec,
          dnn::Planned planned, std::unique_ptr<Kernel> tiles)
      : CudnnKernel(context, n, spec, std::move(planned), std::move(tiles)),
        sinks_(small_input(n, operand::attention::kSinks)) {
    if (spec.over_state) {
      lengths_ = function(context, "attention_state_lengths");
      lengths_bytes_ = aligned(static_cast<std::size_t>(spec.batch) * 2 * sizeof(std::int32_t));
    }
    if (spec.sinks) {
      widen_ = function(context, "attention_wide_sinks");
      sinks_bytes_ = aligned(static_cast<std::size_t>(spec.heads) * sizeof(float));
    }
  }

 protected:
  std::size_t own_workspace_bytes() const override { return lengths_bytes_ + sinks_bytes_; }

  bool is_aligned(const KernelArgs& args) const override {
    namespace in = operand::attention;
    return begin_vectors({input_of(args, in::kQ), input_of(args, in::kK), input_of(args, in::kV),
                          args.outputs[0], args.outputs[1]});
  }

  void run_aligned(const KernelArgs& args) override {
    namespace in = operand::attention;
    dnn::AttentionOperands o{.q = number(input_of(args, in::kQ)),
                             .k = number(input_of(args, in::kK)),
                             .v = number(input_of(args, in::kV)),
                             .y = number(args.outputs[0]),
                             .lse = number(args.outputs[1]),
                             .q_segments = number(input_of(args, in::kSegments)),
                             .k_segments = number(input_of(args, in::kKeySegments)),
                             .workspace = number(args.workspace) + lengths_bytes_ + sinks_bytes_};
    if (widen_) {
      o.sinks = number(args.workspace) + lengths_bytes_;
      WideSinksParams params{
          .sinks = sinks_, .wide = {o.sinks}, .heads = static_cast<std::int32_t>(spec_.heads)};
      params.sinks.data = address(input_of(args, in::kSinks));
      launch(args, widen_, {.blocks = grid_for(spec_.heads, 256), .threads = 256}, params);
    }
    if (lengths_) {
      o.q_lengths = number(args.workspace);
      o.kv_lengths = o.q_lengths + static_cast<Address>(spec_.batch) * sizeof(std::int32_t);
      launch(args, lengths_, {.blocks = grid_for(spec_.batch, 256), .threads = 256},
             StateLengthsParams{.starts = address(input_of(args, in::kStart)),
                                .q_lengths = {o.q_lengths},
                                .kv_lengths = {o.kv_lengths},
                                .batch = static_cast<std::int32_t>(spec_.batch),
                                .tokens = static_cast<std::int32_t>(spec_.q_tokens),
                                .capacity = static_cast<std::int32_t>(spec_.kv_tokens)});
    }
    run_plan(args, kForward, o);
    clear_unseen(args, args.outputs[0], args.outputs[1], input_of(args, in::kSegments),
                 input_of(args, in::kKeySegments), {o.q_lengths});
  }

 private:
  Function lengths_ = nullptr, widen_ = nullptr;
  std::size_t lengths_bytes_ = 0, sinks_bytes_ = 0;
  const SmallInput sinks_;  // without address
};

// Runs the plan of part_of() for one part of the batch after the other.
class Backward final : public CudnnKernel {
 public:
  using CudnnKernel::CudnnKernel;

 protected:
  bool is_aligned(const KernelArgs& args) const override {
    namespace in = operand::attention_grad;
    return begin_vectors({input_of(args, in::kQ), input_of(args, in::kK), input_of(args, in::kV),
                          input_of(args, in::kY), input_of(args, in::kLse), input_of(args, in::kDy),
                          args.outputs[0], args.outputs[1], args.outputs[2]});
  }

  void run_aligned(const KernelArgs& args) override {
    const std::int64_t rows = part_of(spec_).batch;
    for (std::int64_t row = 0; row < spec_.batch; row += rows)
      run_plan(args, kBackward, operands_from(args, row));
  }

 private:
  dnn::AttentionOperands operands_from(const KernelArgs& args, std::int64_t row) const {
    namespace in = operand::attention_grad;
    const auto at = [row](const void* base, std::int64_t row_bytes) {
      return number(base) + static_cast<Address>(row * row_bytes);
    };
    const std::int64_t bytes = size_bytes(spec_.dtype);
    const std::int64_t q = spec_.q_tokens * spec_.heads * spec_.width * bytes;
    const std::int64_t k = spec_.kv_tokens * spec_.kv_heads * spec_.width * bytes;
    const std::int64_t v = spec_.kv_tokens * spec_.kv_heads * spec_.value_width * bytes;
    const std::int64_t y = spec_.q_tokens * spec_.heads * spec_.value_width * bytes;
    return {.q = at(input_of(args, in::kQ), q),
            .k = at(input_of(args, in::kK), k),
            .v = at(input_of(args, in::kV), v),
            .y = at(input_of(args, in::kY), y),
            .lse = at(input_of(args, in::kLse), spec_.heads * spec_.q_tokens * 4),
            .dy = at(input_of(args, in::kDy), y),
            .dq = at(args.outputs[0], q),
            .dk = at(args.outputs[1], k),
            .dv = at(args.outputs[2], v),
            .workspace = number(args.workspace)};
  }
};

template <typename AnyKernel>
std::unique_ptr<Kernel> made(const NodeView& n, const Inputs& in, bool backward, Context& context,
                             const MakeTiles& make_tiles) {
  auto& mine = static_cast<CudaContext&>(context);
  const DnnAttentionSpec spec = spec_of(n, in, backward);
  dnn::Planned planned = plan_of(mine, backward ? part_of(spec) : spec);
  if (!planned.plan)
    return std::make_unique<DetailedKernel>(make_tiles(false), "refuses, tiles instead");
  return std::make_unique<AnyKernel>(mine, n, spec, std::move(planned), make_tiles(true));
}

}  // namespace

Verdict cudnn_takes_attention(const NodeView& n) { return takes(n, forward_inputs(), false); }
Verdict cudnn_takes_attention_grad(const NodeView& n) { return takes(n, grad_inputs(), true); }

std::unique_ptr<Kernel> cudnn_attention(const NodeView& n, Context& context,
                                        const MakeTiles& make_tiles) {
  return made<Forward>(n, forward_inputs(), false, context, make_tiles);
}
std::unique_ptr<Kernel> cudnn_attention_grad(const NodeView& n, Context& context,
                                             const MakeTiles& make_tiles) {
  return made<Backward>(n, grad_inputs(), true, context, make_tiles);
}

}  // namespace lamina::cuda
