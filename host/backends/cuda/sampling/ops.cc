// likeliest_tokens and tokens_at_draw: blocks for parts of each row, then one block for each row.
#include <utility>

#include "backends/cuda/kernel_support.h"
#include "backends/cuda/sampling/params.h"
#include "core/round_up.h"

namespace lamina::cuda {
namespace {

// Pieces of the workspace, one after the other.
class Pieces {
 public:
  // Returns the offset of a piece.
  std::size_t add(std::size_t bytes) { return std::exchange(bytes_, bytes_ + aligned(bytes)); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

Verdict takes_logits(const NodeView& n) {
  constexpr std::int64_t kMostRows = 65535, kMostTokens = 1 << 28;
  const Type& logits = n.type(0);
  if (logits.dtype != DType::f32) return Verdict::no("takes f32, got " + to_string(logits));
  if (logits.dim(0) > kMostRows || logits.dim(1) > kMostTokens)
    return Verdict::no(fmt::format("takes up to {} rows of {} tokens, got {}", kMostRows,
                                   kMostTokens, to_string(logits)));
  return Verdict::yes();
}

SamplingRows rows_of(const Type& logits) {
  return {.logits = {},
          .temperature = {},
          .largest = {},
          .width = static_cast<int>(logits.dim(1)),
          .parts = static_cast<int>(divide_up(logits.dim(1), std::int64_t{kPartIds}))};
}

namespace likeliest_tokens_op {

Verdict supports(const NodeView& n) {
  if (n.i("k") > kMostLikeliest)
    return Verdict::no(fmt::format("selects up to {} tokens, got {}", kMostLikeliest, n.i("k")));
  return takes_logits(n);
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const std::int64_t rows = n.type(0).dim(0);
  LikeliestParams p{.rows = rows_of(n.type(0)),
                    .weights = {},
                    .keys = {},
                    .values = {},
                    .ids = {},
                    .weight = {},
                    .k = static_cast<int>(n.i("k"))};
  const auto parts = static_cast<std::size_t>(rows * p.rows.parts);
  Pieces pieces;
  const std::size_t largest = pieces.add(parts * sizeof(float)),
                    weights = pieces.add(parts * sizeof(double)),
                    keys =
                        pieces.add(parts * static_cast<std::size_t>(p.k) * sizeof(std::uint64_t));
  const Function of_parts = function(context, "sampling_likeliest_parts");
  const Function of_rows = function(context, "sampling_likeliest");
  return make_kernel(
      [=](const KernelArgs& args) mutable {
        p.rows.logits = address(args.inputs[0]);
        p.rows.temperature = address(args.inputs[1]);
        p.rows.largest = address(args.workspace + largest);
        p.weights = address(args.workspace + weights);
        p.keys = address(args.workspace + keys);
        p.values = address(args.outputs[0]);
        p.ids = address(args.outputs[1]);
        p.weight = address(args.outputs[2]);
        launch(args, of_parts,
               {.blocks = p.rows.parts, .threads = kSamplingThreads, .blocks_y = rows}, p);
        launch(args, of_rows, {.threads = kSamplingThreads, .blocks_y = rows}, p);
      },
      pieces.bytes());
}

constexpr KernelChoice kChoices[] = {{"parts", supports, make, 0, true}};

}  // namespace likeliest_tokens_op

namespace tokens_at_draw_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const std::int64_t rows = n.type(0).dim(0);
  AtDrawParams p{.rows = rows_of(n.type(0)),
                 .sums = {},
                 .draws = {},
                 .values = {},
                 .first = {},
                 .before = {},
                 .row_largest = {},
                 .weight = {}};
  const auto parts = static_cast<std::size_t>(rows * p.rows.parts);
  Pieces pieces;
  const std::size_t largest = pieces.add(parts * sizeof(float)),
                    sums = pieces.add(parts * kIdsPerThread * sizeof(double));
  const Function of_groups = function(context, "sampling_group_weights");
  const Function of_rows = function(context, "sampling_at_draw");
  return make_kernel(
      [=](const KernelArgs& args) mutable {
        p.rows.logits = address(args.inputs[0]);
        p.rows.temperature = address(args.inputs[1]);
        p.draws = address(args.inputs[2]);
        p.rows.largest = address(args.workspace + largest);
        p.sums = address(args.workspace + sums);
        p.values = address(args.outputs[0]);
        p.first = address(args.outputs[1]);
        p.before = address(args.outputs[2]);
        p.row_largest = address(args.outputs[3]);
        p.weight = address(args.outputs[4]);
        launch(args, of_groups,
               {.blocks = p.rows.parts, .threads = kSamplingThreads, .blocks_y = rows}, p);
        launch(args, of_rows, {.threads = kSamplingThreads, .blocks_y = rows}, p);
      },
      pieces.bytes());
}

constexpr KernelChoice kChoices[] = {{"parts", takes_logits, make, 0, true}};

}  // namespace tokens_at_draw_op

constexpr OpKernels kOps[] = {
    {"likeliest_tokens", likeliest_tokens_op::kChoices},
    {"tokens_at_draw", tokens_at_draw_op::kChoices},
};

}  // namespace

KernelTable sampling_kernels() { return kOps; }

}  // namespace lamina::cuda
