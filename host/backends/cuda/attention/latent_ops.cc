// Attention over compressed decode state: latent_attention_step, in which queries absorb the key
// matrix and latents are read once for all heads, and compressed_attention_step, which reads only
// the slots that a token sees.
#include <cmath>

#include "backends/cuda/attention/choices.h"
#include "backends/cuda/attention/plan.h"
#include "core/round_up.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

double scale_of(const NodeView& n) {
  return n.f("scale") != 0 ? n.f("scale") : 1 / std::sqrt(static_cast<double>(n.type(0).dim(3)));
}

std::size_t bytes_of(DType dtype, std::int64_t count) {
  return aligned(static_cast<std::size_t>(count * size_bytes(dtype)));
}

Verdict fits(DType dtype, const AttentionSizes& size) {
  if (forward_form(dtype, size, true).kernel.empty())
    return Verdict::no("takes states whose tiles fit into the GPU's shared memory");
  return Verdict::yes();
}

namespace latent_op {

namespace in = operand::latent_attention_step;

// Attention of the absorbed queries to the latents, as keys of one head.
AttentionSizes sizes(const NodeView& n) {
  const Type &q = n.type(in::kQ), &latent = n.type(in::kLatent);
  const std::int64_t rope = n.type(in::kKRope).dim(2), rank = latent.dim(2);
  return attention_sizes({q.dtype, {q.dim(0), q.dim(1), q.dim(2), rank + rope}, {}},
                         {q.dtype, {latent.dim(0), latent.dim(1), 1, rank + rope}, {}}, rank);
}

Verdict supports(const NodeView& n) {
  if (Verdict verdict = only_f32_and_bf16(n); !verdict) return verdict;
  const Type& q = n.type(in::kQ);
  const Type keys{q.dtype, {q.dim(0), n.type(in::kLatent).dim(1), 1, 1}, {}};
  if (Verdict verdict = supports_sizes(q, keys); !verdict) return verdict;
  return fits(q.dtype, sizes(n));
}

LatentProductParams products(const NodeView& n) {
  const Type& q = n.type(in::kQ);
  LatentProductParams p;
  p.rows = q.dim(0) * q.dim(1);
  p.heads = static_cast<int>(q.dim(2));
  p.rank = static_cast<int>(n.type(in::kLatent).dim(2));
  p.nope = static_cast<int>(n.i("nope_dim"));
  p.rope = static_cast<int>(n.type(in::kKRope).dim(2));
  p.value = static_cast<int>(n.out_type(0).dim(3));
  return p;
}

class LatentAttention final : public Kernel {
 public:
  LatentAttention(const NodeView& n, Context& context)
      : products_(products(n)),
        params_(attention(n)),
        run_(context, n.type(in::kQ).dtype, params_,
             {.by_mask = n.has(in::kMask), .over_state = true}),
        queries_(function(context, "latent_attention_queries", n.type(in::kQ).dtype)),
        values_(function(context, "latent_attention_values", n.type(in::kQ).dtype)) {
    const std::int64_t rows = products_.rows * products_.heads;
    const DType dtype = n.type(in::kQ).dtype;
    queries_bytes_ = bytes_of(dtype, rows * (products_.rank + products_.rope));
    sums_bytes_ = bytes_of(dtype, rows * products_.rank);
    element_bytes_ = static_cast<std::uint64_t>(size_bytes(dtype));
  }

  std::size_t workspace_bytes() const override {
    return queries_bytes_ + sums_bytes_ + run_.workspace_bytes();
  }

  void run(const KernelArgs& args) override {
    std::byte* const queries = args.workspace;
    std::byte* const sums = queries + queries_bytes_;
    launch_product(args, queries_, 128, address(args.inputs[in::kQ]), address(queries));
    AttentionParams p = params_;
    p.seen.starts = address(args.inputs[in::kStart]);
    p.seen.keep = address(args.inputs[in::kMask]);
    p.q = address(queries);
    p.k = p.v = address(args.inputs[in::kLatent]);
    p.k_tail = address(args.inputs[in::kKRope]);
    p.y = address(sums);
    run_.run(args, p, sums + sums_bytes_);
    launch_product(args, values_, 256, address(sums), address(args.outputs[0]));
  }

 private:
  static AttentionParams attention(const NodeView& n) {
    AttentionParams p;
    p.size = sizes(n);
    p.seen.causal = 1;
    p.logits.scale = scale_of(n);
    p.logits.soft_cap = n.f("soft_cap");
    p.tail_width = static_cast<int>(n.type(in::kKRope).dim(2));
    p.values_are_keys = 1;
    p.key_rows = p.size.kv_tokens;
    return p;
  }

  void launch_product(const KernelArgs& args, Function kernel, int threads, gpu::Address x,
                      gpu::Address out) const {
    constexpr std::int64_t kTokens = 8;  // of a block
    LatentProductParams p = products_;
    p.x = x;
    p.w = address(args.inputs[in::kWKv]);
    p.out = out;
    p.vectors = p.rank % 4 == 0 && p.w.value % (4 * element_bytes_) == 0;
    launch(args, kernel, {.blocks = divide_up(p.rows, kTokens) * p.heads, .threads = threads}, p);
  }

  LatentProductParams products_;
  AttentionParams params_;
  AttentionRun run_;
  Function queries_, values_;
  std::size_t queries_bytes_ = 0, sums_bytes_ = 0;
  std::uint64_t element_bytes_ = 0;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return std::make_unique<LatentAttention>(n, context);
}

constexpr KernelChoice kChoices[] = {{"absorbed", supports, make}};

}  // namespace latent_op

namespace compressed_op {

namespace in = operand::compressed_attention_step;

// Maximum number of slots that a token sees.
std::int64_t max_slots(const NodeView& n) {
  const std::int64_t entries = n.type(in::kCache).dim(1) - n.i("ring");
  return std::min(n.i("window"), n.i("ring")) +
         (n.has(in::kScores) ? std::min(n.i("k"), entries) : entries);
}

// Every token is a batch row: it has its own list of slots, and all heads read them together.
AttentionSizes sizes(const NodeView& n) {
  const Type& q = n.type(in::kQ);
  const std::int64_t tokens = q.dim(0) * q.dim(1);
  return attention_sizes({q.dtype, {tokens, 1, q.dim(2), q.dim(3)}, {}},
                         {q.dtype, {tokens, max_slots(n), 1, q.dim(3)}, {}}, q.dim(3));
}

Verdict supports(const NodeView& n) {
  if (Verdict verdict = only_f32_and_bf16(n); !verdict) return verdict;
  const Type &q = n.type(in::kQ), &cache = n.type(in::kCache);
  if (cache.dtype != q.dtype)
    return Verdict::no("takes a cache of the type of q, got " + to_string(cache));
  if (n.has(in::kScores) && n.type(in::kScores).dtype != DType::f32)
    return Verdict::no("takes scores in f32, got " + to_string(n.type(in::kScores)));
  if (n.i("ring") < q.dim(1)) return Verdict::no("takes a ring with room for the call");
  const Type keys{q.dtype, {q.dim(0), cache.dim(1), 1, 1}, {}};
  if (Verdict verdict = supports_sizes(q, keys); !verdict) return verdict;
  return fits(q.dtype, sizes(n));
}

AttentionParams attention(const NodeView& n) {
  AttentionParams p;
  p.size = sizes(n);
  p.logits.scale = scale_of(n);
  p.logits.soft_cap = n.f("soft_cap");
  p.sinks = small_input(n, in::kSinks);
  p.values_are_keys = 1;
  p.key_rows = static_cast<int>(n.type(in::kCache).dim(1));
  p.batch_per_keys = static_cast<int>(n.type(in::kQ).dim(1));
  return p;
}

CompressedSlotsParams slots_of(const NodeView& n) {
  const Type& q = n.type(in::kQ);
  CompressedSlotsParams p;
  p.batch = static_cast<int>(q.dim(0));
  p.tokens = static_cast<int>(q.dim(1));
  p.ring = static_cast<int>(n.i("ring"));
  p.entries = static_cast<int>(n.type(in::kCache).dim(1) - n.i("ring"));
  p.window = static_cast<int>(std::min<std::int64_t>(n.i("window"), p.ring));
  p.ratio = static_cast<int>(std::min<std::int64_t>(n.i("ratio"), 1 << 30));
  p.k = static_cast<int>(std::min<std::int64_t>(n.i("k"), p.entries));
  p.max_slots = static_cast<int>(max_slots(n));
  return p;
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  constexpr std::int64_t kFewTokens = 16;  // more have enough blocks without splits
  const AttentionParams params = attention(n);
  const CompressedSlotsParams slots = slots_of(n);
  const AttentionRun run(context, n.type(in::kQ).dtype, params,
                         {.over_state = n.type(in::kQ).dim(1) <= kFewTokens});
  const Function find = function(context, "compressed_attention_slots");
  const std::int64_t tokens = std::int64_t{slots.batch} * slots.tokens;
  const std::size_t counts_bytes = bytes_of(DType::i32, tokens);
  const std::size_t slots_bytes = bytes_of(DType::i32, tokens * slots.max_slots);
  return make_kernel(
      [=](const KernelArgs& args) {
        CompressedSlotsParams s = slots;
        s.starts = address(args.inputs[in::kStart]);
        s.scores = address(args.inputs[in::kScores]);
        s.counts = address(args.workspace);
        s.slots = address(args.workspace + counts_bytes);
        launch(args, find, {.blocks = tokens, .threads = 256}, s);
        AttentionParams p = params;
        p.seen.counts = s.counts;
        p.slots = s.slots;
        p.q = address(args.inputs[in::kQ]);
        p.k = p.v = address(args.inputs[in::kCache]);
        p.sinks.data = address(args.inputs[in::kSinks]);
        p.y = address(args.outputs[0]);
        run.run(args, p, args.workspace + counts_bytes + slots_bytes);
      },
      counts_bytes + slots_bytes + run.workspace_bytes());
}

constexpr KernelChoice kChoices[] = {{"seen slots", supports, make}};

}  // namespace compressed_op

}  // namespace

std::span<const KernelChoice> latent_attention_step_choices() { return latent_op::kChoices; }
std::span<const KernelChoice> compressed_attention_step_choices() {
  return compressed_op::kChoices;
}

}  // namespace lamina::cuda
