#include "backends/cuda/attention/one_token_ops.h"

#include <algorithm>

#include "backends/cuda/attention/plan.h"
#include "core/round_up.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

namespace in = operand::attention;

// Sizes of a block, as the kernels have them.
constexpr int kWarps = 4, kMostGroup = 8;
// It does not depend on the batch, so that the bits of a row do not either.
constexpr int kKeysPerSplit = 256;

std::string kernel_name(const AttentionSizes& size, RowKind kind) {
  const std::string plain = fmt::format("attention_one_token_{}", size.width);
  return kind == RowKind::plain ? plain : fmt::format("{}_{}", plain, name(kind));
}

}  // namespace

Verdict takes_one_token(const NodeView& n) {
  const Type &q = n.type(in::kQ), &k = n.type(in::kK), &v = n.type(in::kV);
  if (!n.has(in::kStart) || q.dim(1) != 1)
    return Verdict::no("takes one token per row over decode state");
  if (q.dtype != DType::bf16)
    return Verdict::no("takes bf16, got " + to_string(q) + " and " + to_string(k));
  for (const Type& rows : {k, v})
    if (Verdict verdict = supports_rows(rows); !verdict) return verdict;
  if (row_kind(k) != row_kind(v))
    return Verdict::no("takes keys and values of one kind, got " + to_string(k) + " and " +
                       to_string(v));
  const std::int64_t width = q.dim(3);
  if ((width != 64 && width != 128 && width != 256) || v.dim(3) != width)
    return Verdict::no("takes heads of 64, 128 or 256 numbers, got " + to_string(q) + " and " +
                       to_string(v));
  if (q.dim(2) > kMostGroup * k.dim(2))
    return Verdict::no(fmt::format("takes at most {} heads per key head, got {}", kMostGroup,
                                   q.dim(2) / k.dim(2)));
  for (const int i :
       {in::kPositions, in::kSegments, in::kBlocks, in::kMask, in::kSlopes, in::kBias})
    if (n.has(i)) return Verdict::no("takes causal masks, windows and rings only");
  if (n.i("chunk") != 0) return Verdict::no("takes no chunks");
  return supports_sizes(q, k);
}

OneTokenRun::OneTokenRun(Context& context, const AttentionParams& params, RowKind kind)
    : size_(params.size), function_(function(context, kernel_name(size_, kind), DType::bf16)) {
  splits_ = static_cast<int>(std::max<std::int64_t>(
      1, divide_up(std::int64_t{size_.kv_tokens}, std::int64_t{kKeysPerSplit})));
  if (splits_ == 1) return;
  const auto rows =
      static_cast<std::size_t>(size_.batch) * static_cast<std::size_t>(size_.kv_heads);
  counter_bytes_ = rows * sizeof(std::uint32_t);
  partial_bytes_ = rows * static_cast<std::size_t>(splits_) *
                   static_cast<std::size_t>(size_.group) * sizeof(float);
  bytes_ =
      2 * aligned(partial_bytes_) + aligned(partial_bytes_ * static_cast<std::size_t>(size_.width));
}

bool OneTokenRun::takes(const AttentionParams& p) { return copies_vectors({}, {p.q, p.k, p.v}); }

void OneTokenRun::run(const KernelArgs& args, AttentionParams p, std::byte* workspace) const {
  p.splits = splits_;
  p.keys_per_split = kKeysPerSplit;
  if (splits_ > 1) {
    p.partial_top = address(workspace);
    p.partial_sum = address(workspace + aligned(partial_bytes_));
    p.partial_y = address(workspace + 2 * aligned(partial_bytes_));
  }
  launch(args, function_,
         {.blocks = std::int64_t{size_.batch} * size_.kv_heads * splits_,
          .threads = 32 * kWarps,
          .shared_bytes =
              static_cast<std::size_t>(kWarps * size_.group * (size_.width + 4)) * sizeof(float)},
         p);
}

}  // namespace lamina::cuda
