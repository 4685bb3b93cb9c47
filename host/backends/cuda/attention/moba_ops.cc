// moba_mask for chunks that are consecutive in the row; documents are lowered.
#include "backends/cuda/attention/choices.h"
#include "backends/cuda/attention/plan.h"
#include "backends/cuda/attention/widened_rows.h"
#include "core/round_up.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

namespace in = operand::moba_mask;

constexpr int kWarps = 4;  // of a block that chooses chunks
constexpr std::int64_t kMostChunks = 4096;

std::int64_t chunks_of(const NodeView& n) { return divide_up(n.type(in::kK).dim(1), n.i("chunk")); }
std::int64_t shared_bytes_of(const NodeView& n) {
  return kWarps * chunks_of(n) * size_bytes(sum_dtype(n.type(in::kQ).dtype));
}

Verdict supports(const NodeView& n) {
  const Type &q = n.type(in::kQ), &k = n.type(in::kK);
  if (Verdict verdict = supports_rows(k); !verdict) return verdict;
  if (n.has(in::kPositions) || n.has(in::kSegments))
    return Verdict::no("takes no documents: chunks must be consecutive in the row");
  if (q.dtype != k.dtype)
    return Verdict::no("takes q and k of one type, got " + to_string(q) + " and " + to_string(k));
  if (chunks_of(n) > kMostChunks)
    return Verdict::no("takes up to 4096 chunks, got " + std::to_string(chunks_of(n)));
  if (shared_bytes_of(n) > most_tile_bytes())
    return Verdict::no(fmt::format("{} chunks need {} bytes of shared memory, more than {}",
                                   chunks_of(n), shared_bytes_of(n), most_tile_bytes()));
  return supports_sizes(q, k);
}

MobaMaskParams params_of(const NodeView& n) {
  const Type &q = n.type(in::kQ), &k = n.type(in::kK);
  const AttentionSizes size = attention_sizes(q, k, 0);
  MobaMaskParams p;
  p.batch = size.batch;
  p.tokens = size.q_tokens;
  p.keys = size.kv_tokens;
  p.heads = size.heads;
  p.kv_heads = size.kv_heads;
  p.width = size.width;
  p.chunks = static_cast<int>(chunks_of(n));
  p.size = static_cast<int>(std::min<std::int64_t>(n.i("chunk"), 1 << 30));
  p.best = static_cast<int>(std::min<std::int64_t>(n.i("k"), p.chunks));
  return p;
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const MobaMaskParams params = params_of(n);
  const DType dtype = n.type(in::kQ).dtype;
  const Function means = function(context, "moba_mask_means", dtype);
  const Function choices = function(context, "moba_mask_choices", dtype);
  const std::int64_t wide_bytes = size_bytes(sum_dtype(dtype));
  const auto shared_bytes = static_cast<std::size_t>(shared_bytes_of(n));
  const std::int64_t means_bytes =
      std::int64_t{params.batch} * params.chunks * params.kv_heads * params.width * wide_bytes;
  const WidenedRows keys(context, n.type(in::kK), params.tokens);
  const std::size_t keys_bytes = keys.workspace_bytes();
  return make_kernel(
      [=](const KernelArgs& args) {
        MobaMaskParams p = params;
        if (p.tokens == 0 || p.keys == 0) return;
        p.q = address(args.inputs[in::kQ]);
        p.k = address(keys.run(args, args.inputs[in::kK], args.inputs[in::kStart], args.workspace));
        p.starts = address(args.inputs[in::kStart]);
        p.means = address(args.workspace + keys_bytes);
        p.mask = address(args.outputs[0]);
        launch(args, means, {.blocks = std::int64_t{p.batch} * p.chunks, .threads = 256}, p);
        launch(args, choices,
               {.blocks = grid_for(std::int64_t{p.batch} * p.heads * p.tokens, kWarps),
                .threads = 32 * kWarps,
                .shared_bytes = shared_bytes},
               p);
      },
      keys_bytes + aligned(static_cast<std::size_t>(means_bytes)));
}

constexpr KernelChoice kChoices[] = {{"rows", supports, make}};

}  // namespace

std::span<const KernelChoice> moba_mask_choices() { return kChoices; }

}  // namespace lamina::cuda
