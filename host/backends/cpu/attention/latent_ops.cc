// The kernels of latent_attention_step, and of its indexer: index_scores, index_scores_grad,
// index_scores_step and top_k_mask.
#include <algorithm>
#include <cmath>

#include "backends/cpu/attention/best_keys.h"
#include "backends/cpu/attention/inputs.h"
#include "backends/cpu/attention/latent.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

// Queries absorb the key matrix, and latents are read once for all heads.
namespace latent_attention_step_op {

namespace in = operand::latent_attention_step;

class LatentAttentionKernel final : public Kernel {
 public:
  explicit LatentAttentionKernel(const NodeView& n) {
    const Type& q = n.type(in::kQ);
    const Type& latent = n.type(in::kLatent);
    const std::int64_t nope = n.i("nope_dim");
    spec_ = {.dtype = q.dtype,
             .batch = q.dim(0),
             .tokens = q.dim(1),
             .capacity = latent.dim(1),
             .heads = q.dim(2),
             .nope_dim = nope,
             .rope_dim = q.dim(3) - nope,
             .v_dim = n.out_type(0).dim(3),
             .rank = latent.dim(2),
             .scale = n.f("scale") != 0 ? n.f("scale") : 1 / std::sqrt(double(q.dim(3))),
             .soft_cap = n.f("soft_cap")};
  }

  std::size_t workspace_bytes() const override { return latent_attention_workspace_bytes(spec_); }

  void run(const KernelArgs& args) override {
    latent_attention(spec_,
                     {.q = args.inputs[in::kQ],
                      .latent = args.inputs[in::kLatent],
                      .k_rope = args.inputs[in::kKRope],
                      .w_kv = args.inputs[in::kWKv],
                      .starts = static_cast<const std::int32_t*>(args.inputs[in::kStart]),
                      .keep = static_cast<const std::uint8_t*>(args.inputs[in::kMask]),
                      .y = args.outputs[0]},
                     args.workspace);
  }

 private:
  LatentSpec spec_;
};

Verdict supports(const NodeView& n) {
  if (n.type(in::kQ).dtype == DType::bf16 && n.type(in::kLatent).dim(2) % 2 != 0)
    return Verdict::no("takes latents of even width in bf16");
  if (n.type(in::kKRope).dim(2) == 0) return Verdict::no("takes heads with rotary dims");
  return only_f32_and_bf16(n);
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<LatentAttentionKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"absorbed", supports, make}};

}  // namespace latent_attention_step_op

IndexSpec index_spec(const NodeView& n) {
  return {.dtype = n.type(0).dtype,
          .batch = n.type(0).dim(0),
          .tokens = n.type(0).dim(1),
          .keys = n.type(1).dim(1),
          .heads = n.type(0).dim(2),
          .dim = n.type(0).dim(3)};
}

IndexArgs index_args(const KernelArgs& args) {
  return {.q = args.inputs[0],
          .k = args.inputs[1],
          .weights = static_cast<const float*>(args.inputs[2]),
          .scores = static_cast<float*>(args.outputs[0])};
}

Verdict supports_index_scores(const NodeView& n) {
  if (n.type(2).dtype != DType::f32)
    return Verdict::no("takes weights in f32, got " + to_string(n.type(2)));
  return only_f32_and_bf16(n);
}

// Multiplies a tile of keys with all heads, and weights the products before they are stored.
namespace index_scores_op {

class IndexScoresKernel final : public Kernel {
 public:
  explicit IndexScoresKernel(const NodeView& n) : spec_(index_spec(n)) {}

  std::size_t workspace_bytes() const override { return index_scores_workspace_bytes(spec_); }

  void run(const KernelArgs& args) override {
    index_scores(spec_, index_args(args), args.workspace);
  }

 private:
  IndexSpec spec_;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<IndexScoresKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"tiles", supports_index_scores, make}};

}  // namespace index_scores_op

// Computes tiles of pairs twice: for the gradients of queries and for the gradients of keys.
namespace index_scores_grad_op {

class IndexScoresGradKernel final : public Kernel {
 public:
  explicit IndexScoresGradKernel(const NodeView& n) : spec_(index_spec(n)) {}

  std::size_t workspace_bytes() const override { return index_scores_grad_workspace_bytes(spec_); }

  void run(const KernelArgs& args) override {
    index_scores_grad(spec_,
                      {.q = args.inputs[0],
                       .k = args.inputs[1],
                       .weights = static_cast<const float*>(args.inputs[2]),
                       .dscores = static_cast<const float*>(args.inputs[3]),
                       .dq = args.outputs[0],
                       .dk = args.outputs[1],
                       .dweights = static_cast<float*>(args.outputs[2])},
                      args.workspace);
  }

 private:
  IndexSpec spec_;
};

Verdict supports(const NodeView& n) {
  if (n.type(3).dtype != DType::f32)
    return Verdict::no("takes gradients of scores in f32, got " + to_string(n.type(3)));
  return supports_index_scores(n);
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<IndexScoresGradKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"tiles", supports, make}};

}  // namespace index_scores_grad_op

// Computes the tiles of index_scores up to the last key that a token may see.
namespace index_scores_step_op {

class IndexScoresStepKernel final : public Kernel {
 public:
  explicit IndexScoresStepKernel(const NodeView& n)
      : spec_(index_spec(n)),
        stride_(static_cast<std::int32_t>(n.i("stride"))),
        ends_bytes_(aligned(static_cast<std::size_t>(spec_.batch) * sizeof(std::int32_t))) {}

  std::size_t workspace_bytes() const override {
    return ends_bytes_ + index_scores_workspace_bytes(spec_);
  }

  void run(const KernelArgs& args) override {
    const auto* starts = static_cast<const std::int32_t*>(args.inputs[3]);
    auto* ends = reinterpret_cast<std::int32_t*>(args.workspace);
    for (std::int64_t b = 0; b < spec_.batch; ++b)
      ends[b] = (starts[b] + static_cast<std::int32_t>(spec_.tokens)) / stride_;
    IndexArgs scores = index_args(args);
    scores.ends = ends;
    index_scores(spec_, scores, args.workspace + ends_bytes_);
  }

 private:
  IndexSpec spec_;
  std::int32_t stride_;
  std::size_t ends_bytes_;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<IndexScoresStepKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"tiles", supports_index_scores, make}};

}  // namespace index_scores_step_op

// Finds the k-th highest score of each query by selection, then marks the keys in one pass.
namespace top_k_mask_op {

class TopKMaskKernel final : public Kernel {
 public:
  explicit TopKMaskKernel(const NodeView& n)
      : batch_(n.type(0).dim(0)),
        tokens_(n.type(0).dim(1)),
        keys_(n.type(0).dim(2)),
        k_(n.i("k")),
        causal_(n.i("causal") != 0) {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(num_threads()) * row_bytes();
  }

  void run(const KernelArgs& args) override {
    const auto* scores = static_cast<const float*>(args.inputs[0]);
    const auto* segments =
        static_cast<const std::int32_t*>(args.inputs[operand::top_k_mask::kSegments]);
    const auto* starts = static_cast<const std::int32_t*>(args.inputs[operand::top_k_mask::kStart]);
    auto* mask = static_cast<std::uint8_t*>(args.outputs[0]);
    parallel_tasks(batch_ * tokens_, [&](std::int64_t row, int thread) {
      const std::int64_t b = row / tokens_, t = row % tokens_;
      const std::int64_t before = starts ? starts[b] : 0;
      const std::int64_t last = before + (causal_ ? t : tokens_ - 1);
      auto* scratch =
          reinterpret_cast<float*>(args.workspace + static_cast<std::size_t>(thread) * row_bytes());
      mark_row(scores + row * keys_, segments ? segments + b * tokens_ : nullptr, t,
               std::min(last + 1, keys_), scratch, mask + row * keys_);
    });
  }

 private:
  std::size_t row_bytes() const { return aligned(static_cast<std::size_t>(keys_) * sizeof(float)); }

  // Marks keys in [0, end), which the token may see if segments allow it.
  void mark_row(const float* scores, const std::int32_t* segments, std::int64_t t, std::int64_t end,
                float* scratch, std::uint8_t* mask) const {
    auto seen = [&](std::int64_t s) {
      return !segments || (segments[s] == segments[t] && segments[t] != 0);
    };
    std::fill_n(mask, keys_, std::uint8_t{0});
    for_best_keys(scores, end, k_, scratch, seen, [&](std::int64_t s) { mask[s] = 1; });
  }

  std::int64_t batch_, tokens_, keys_, k_;
  bool causal_;
};

Verdict supports(const NodeView& n) {
  if (n.type(0).dtype != DType::f32)
    return Verdict::no("takes scores in f32, got " + to_string(n.type(0)));
  return Verdict::yes();
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<TopKMaskKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"select", supports, make}};

}  // namespace top_k_mask_op

constexpr OpKernels kOps[] = {
    {"latent_attention_step", latent_attention_step_op::kChoices},
    {"index_scores", index_scores_op::kChoices},
    {"index_scores_grad", index_scores_grad_op::kChoices},
    {"index_scores_step", index_scores_step_op::kChoices},
    {"top_k_mask", top_k_mask_op::kChoices},
};

}  // namespace

KernelTable latent_kernels() { return kOps; }

}  // namespace lamina::cpu
