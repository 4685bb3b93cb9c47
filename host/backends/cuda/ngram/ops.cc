// The kernels of ngram_hash and ngram_hash_step.
#include <algorithm>

#include "backends/cuda/kernel_support.h"
#include "backends/cuda/ngram/params.h"

namespace lamina::cuda {
namespace {

// All numbers of a launch are in its parameters, which have limited room.
Verdict supports(const NodeView& n) {
  if (n.list("multipliers").size() > kMaxNgram)
    return Verdict::no("takes n-grams of up to " + std::to_string(kMaxNgram) + " tokens, got " +
                       std::to_string(n.list("multipliers").size()));
  if (n.list("sizes").size() > kMaxNgramHeads)
    return Verdict::no("takes up to " + std::to_string(kMaxNgramHeads) + " tables, got " +
                       std::to_string(n.list("sizes").size()));
  return Verdict::yes();
}

NgramParams ngram_params(const NodeView& n, const Type& tokens, const Type& table) {
  NgramParams p{};
  p.batch = tokens.dim(0);
  p.num_tokens = tokens.dim(1);
  p.entries = table.dim(0);
  p.pad = static_cast<std::int32_t>(n.i("pad"));
  p.length = static_cast<std::int32_t>(n.list("multipliers").size());
  p.heads = static_cast<std::int32_t>(n.list("sizes").size());
  std::ranges::transform(n.list("multipliers"), p.multipliers,
                         [](std::int64_t m) { return static_cast<std::uint32_t>(m); });
  std::ranges::copy(n.list("sizes"), p.sizes);
  return p;
}

namespace ngram_hash_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Function rows = function(context, "ngram_rows");
  const bool by_document = n.has(2) && n.i("across") == 0;
  return make_kernel(
      [=, p = ngram_params(n, n.type(0), n.type(1))](const KernelArgs& args) mutable {
        p.tokens = address(args.inputs[0]);
        p.table = address(args.inputs[1]);
        p.segments = address(by_document ? args.inputs[2] : nullptr);
        p.rows = address(args.outputs[0]);
        launch(args, rows, {.blocks = grid_for(p.batch * p.num_tokens, 128), .threads = 128}, p);
      });
}

constexpr KernelChoice kChoices[] = {{"tokens", supports, make}};

}  // namespace ngram_hash_op

// Computes ngram_hash with the previous ids from decode state.
namespace ngram_hash_step_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Function rows = function(context, "ngram_rows");
  const Function history = function(context, "ngram_history");
  return make_kernel(
      [=, p = ngram_params(n, n.type(1), n.type(2))](const KernelArgs& args) mutable {
        p.history = address(args.inputs[0]);
        p.tokens = address(args.inputs[1]);
        p.table = address(args.inputs[2]);
        p.start = address(args.inputs[3]);
        p.count = address(args.inputs[4]);
        p.history_out = address(args.outputs[0]);
        p.rows = address(args.outputs[1]);
        // The rows first: the history may be changed in place.
        if (args.outputs[1])
          launch(args, rows, {.blocks = grid_for(p.batch * p.num_tokens, 128), .threads = 128}, p);
        if (args.outputs[0])
          launch(args, history, {.blocks = grid_for(p.batch, 128), .threads = 128}, p);
      });
}

constexpr KernelChoice kChoices[] = {{"tokens", supports, make}};

}  // namespace ngram_hash_step_op

constexpr OpKernels kOps[] = {
    {"ngram_hash", ngram_hash_op::kChoices},
    {"ngram_hash_step", ngram_hash_step_op::kChoices},
};

}  // namespace

KernelTable ngram_kernels() { return kOps; }

}  // namespace lamina::cuda
