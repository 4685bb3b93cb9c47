// index_scores, its gradients and its form over decode state, top_k_mask and attention_mass.
#include <cmath>

#include "backends/cuda/attention/choices.h"
#include "backends/cuda/attention/plan.h"
#include "core/round_up.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

Verdict only_f32(const NodeView& n, int input, std::string_view name) {
  if (n.type(input).dtype != DType::f32)
    return Verdict::no(fmt::format("takes {} in f32, got {}", name, to_string(n.type(input))));
  return Verdict::yes();
}

// Tiles of pairs, in the division of the kernel of a type.
struct PairForm {
  int tile, threads, key_stride;
  std::size_t shared_bytes;
};
// `tiles`: tiles of q and k that are in shared memory at once, for bf16.
PairForm pair_form(DType dtype, std::int64_t width, int tiles) {
  PairForm form{};
  const int w = static_cast<int>(width);
  if (dtype == DType::bf16) {
    form = {.tile = 64, .threads = 128, .key_stride = matrix_stride(w), .shared_bytes = 0};
    form.shared_bytes = static_cast<std::size_t>(2 * tiles * form.tile * form.key_stride);
  } else {
    form = {.tile = 32, .threads = 256, .key_stride = plain_stride(w), .shared_bytes = 0};
    form.shared_bytes =
        static_cast<std::size_t>(4 * form.tile * (3 * form.key_stride + form.tile + 4));
  }
  return form;
}

Verdict supports_pairs(const NodeView& n, int tiles) {
  if (Verdict verdict = only_f32_and_bf16(n); !verdict) return verdict;
  const Type& q = n.type(0);
  if (Verdict verdict = supports_sizes(q, n.type(1)); !verdict) return verdict;
  if (q.dim(3) > 4096 || pair_form(q.dtype, q.dim(3), tiles).shared_bytes >
                             static_cast<std::size_t>(most_tile_bytes()))
    return Verdict::no("takes heads whose tiles fit into the GPU's shared memory, got " +
                       to_string(q));
  return Verdict::yes();
}

PairSumParams pair_params(const NodeView& n, const PairForm& form) {
  const Type& q = n.type(0);
  PairSumParams p;
  p.batch = static_cast<int>(q.dim(0));
  p.tokens = static_cast<int>(q.dim(1));
  p.heads = static_cast<int>(q.dim(2));
  p.width = static_cast<int>(q.dim(3));
  p.keys = static_cast<int>(n.type(1).dim(1));
  p.key_stride = form.key_stride;
  return p;
}

void launch_pairs(const KernelArgs& args, Function kernel, const PairForm& form, PairSumParams p) {
  p.q = address(args.inputs[0]);
  p.k = address(args.inputs[1]);
  p.out = address(args.outputs[0]);
  p.vectors = copies_vectors({p.width}, {p.q, p.k});
  const std::int64_t tile = form.tile;
  launch(args, kernel,
         {.blocks = p.batch * divide_up(std::int64_t{p.tokens}, tile) *
                    divide_up(std::int64_t{p.keys}, tile),
          .threads = form.threads,
          .shared_bytes = form.shared_bytes},
         p);
}

// Multiplies a tile of keys with all heads, and weights the products before they are stored. Over
// decode state keys that no token sees are left out.
namespace index_scores_op {

constexpr int kTiles = 3;

Verdict supports(const NodeView& n) {
  if (Verdict verdict = only_f32(n, 2, "weights"); !verdict) return verdict;
  return supports_pairs(n, kTiles);
}

template <bool over_state>
std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const DType dtype = n.type(0).dtype;
  const PairForm form = pair_form(dtype, n.type(0).dim(3), kTiles);
  PairSumParams p = pair_params(n, form);
  if constexpr (over_state) p.stride = static_cast<int>(n.i("stride"));
  const Function kernel = function(context, "index_scores", dtype);
  return make_kernel([p, form, kernel](const KernelArgs& args) mutable {
    p.weights = address(args.inputs[2]);
    if (over_state) p.starts = address(args.inputs[operand::index_scores_step::kStart]);
    launch_pairs(args, kernel, form, p);
  });
}

constexpr KernelChoice kChoices[] = {{"tiles", supports, make<false>}};
constexpr KernelChoice kStepChoices[] = {{"tiles", supports, make<true>}};

}  // namespace index_scores_op

// Computes tiles of pairs twice: for the gradients of queries and for the gradients of keys.
namespace index_scores_grad_op {

constexpr int kTiles = 3;

Verdict supports(const NodeView& n) {
  if (Verdict verdict = only_f32(n, 2, "weights"); !verdict) return verdict;
  if (Verdict verdict = only_f32(n, 3, "gradients of scores"); !verdict) return verdict;
  if (n.type(0).dtype == DType::bf16 && n.type(0).dim(3) > 128)
    return Verdict::no("takes heads of at most 128 numbers, got " + to_string(n.type(0)));
  return supports_pairs(n, kTiles);
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& q = n.type(0);
  const PairForm form = pair_form(q.dtype, q.dim(3), kTiles);
  const Type& k = n.type(1);
  // The keys are shared by all heads.
  const Type one_head{k.dtype, {k.dim(0), k.dim(1), 1, k.dim(2)}, {}};
  IndexGradParams p;
  p.size = attention_sizes(q, one_head, 0);
  divide_tiles(p.size, form.tile, form.tile);
  p.key_stride = form.key_stride;
  const Function rows = function(context, "index_scores_grad_rows", q.dtype);
  const Function keys = function(context, "index_scores_grad_keys", q.dtype);
  return make_kernel([p, form, rows, keys](const KernelArgs& args) mutable {
    p.q = address(args.inputs[0]);
    p.k = address(args.inputs[1]);
    p.weights = address(args.inputs[2]);
    p.dscores = address(args.inputs[3]);
    p.dq = address(args.outputs[0]);
    p.dk = address(args.outputs[1]);
    p.dweights = address(args.outputs[2]);
    p.vectors = copies_vectors({p.size.width}, {p.q, p.k, p.dq, p.dk});
    LaunchShape shape{.blocks = std::int64_t{p.size.batch} * p.size.row_tiles,
                      .threads = form.threads,
                      .shared_bytes = form.shared_bytes};
    launch(args, rows, shape, p);
    shape.blocks = std::int64_t{p.size.batch} * p.size.key_tiles;
    if (p.dk.value != 0) launch(args, keys, shape, p);
  });
}

constexpr KernelChoice kChoices[] = {{"tiles", supports, make}};

}  // namespace index_scores_grad_op

// Computes the lse of each head, then adds up the softmaxes of all heads of a tile of pairs.
namespace attention_mass_op {

namespace in = operand::attention_mass;
constexpr int kTiles = 4;

Verdict supports(const NodeView& n) {
  if (Verdict verdict = supports_pairs(n, kTiles); !verdict) return verdict;
  const Type &q = n.type(in::kQ), &k = n.type(in::kK);
  if (forward_form(q.dtype, attention_sizes(q, k, 0), false).kernel.empty())
    return Verdict::no("takes heads whose tiles fit into the GPU's shared memory, got " +
                       to_string(q));
  return Verdict::yes();
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type &q = n.type(in::kQ), &k = n.type(in::kK);
  const PairForm form = pair_form(q.dtype, q.dim(3), kTiles);
  PairSumParams p = pair_params(n, form);
  p.scale = n.f("scale") != 0 ? n.f("scale") : 1 / std::sqrt(static_cast<double>(q.dim(3)));
  AttentionParams stats;
  stats.size = attention_sizes(q, k, 0);
  stats.logits.scale = p.scale;
  stats.key_rows = stats.size.kv_tokens;
  const AttentionRun run(context, q.dtype, stats, {.by_mask = true});
  const Function kernel = function(context, "attention_mass", q.dtype);
  const std::size_t lse_bytes =
      aligned(static_cast<std::size_t>(q.dim(0) * q.dim(1) * q.dim(2)) * sizeof(float));
  return make_kernel(
      [p, stats, form, run, kernel, lse_bytes](const KernelArgs& args) mutable {
        p.keep = stats.seen.keep = address(args.inputs[in::kMask]);
        p.lse = stats.lse = address(args.workspace);
        stats.q = address(args.inputs[in::kQ]);
        stats.k = address(args.inputs[in::kK]);
        run.run(args, stats, args.workspace + lse_bytes);
        launch_pairs(args, kernel, form, p);
      },
      lse_bytes + run.workspace_bytes());
}

constexpr KernelChoice kChoices[] = {{"tiles", supports, make}};

}  // namespace attention_mass_op

// Finds the k-th highest score of each query digit by digit, then marks the keys in one pass.
namespace top_k_mask_op {

namespace in = operand::top_k_mask;

Verdict supports(const NodeView& n) {
  const Type& scores = n.type(in::kScores);
  if (scores.dim(0) * scores.dim(1) > (1 << 30) || scores.dim(2) > (1 << 30))
    return Verdict::no("takes up to 2^30 rows and keys, got " + to_string(scores));
  return only_f32(n, in::kScores, "scores");
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& scores = n.type(in::kScores);
  TopKMaskParams p;
  p.batch = static_cast<int>(scores.dim(0));
  p.tokens = static_cast<int>(scores.dim(1));
  p.keys = static_cast<int>(scores.dim(2));
  p.k = static_cast<int>(std::min<std::int64_t>(n.i("k"), scores.dim(2)));
  p.causal = n.i("causal") != 0;
  const Function kernel = function(context, "top_k_mask", DType::f32);
  return make_kernel([p, kernel](const KernelArgs& args) mutable {
    p.scores = address(args.inputs[in::kScores]);
    p.segments = address(args.inputs[in::kSegments]);
    p.starts = address(args.inputs[in::kStart]);
    p.mask = address(args.outputs[0]);
    if (p.keys > 0)
      launch(args, kernel, {.blocks = std::int64_t{p.batch} * p.tokens, .threads = 256}, p);
  });
}

constexpr KernelChoice kChoices[] = {{"select", supports, make}};

}  // namespace top_k_mask_op

}  // namespace

std::span<const KernelChoice> attention_mass_choices() { return attention_mass_op::kChoices; }
std::span<const KernelChoice> index_scores_choices() { return index_scores_op::kChoices; }
std::span<const KernelChoice> index_scores_grad_choices() { return index_scores_grad_op::kChoices; }
std::span<const KernelChoice> index_scores_step_choices() { return index_scores_op::kStepChoices; }
std::span<const KernelChoice> top_k_mask_choices() { return top_k_mask_op::kChoices; }

}  // namespace lamina::cuda
