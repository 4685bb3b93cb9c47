// dropout_rate and layer_dropout: in training, zeroes channels of the input of a feed-forward's
// last matrix and of a layer's output, the same ones for all tokens of a row, or for all residual
// streams of a token.
#include <fmt/format.h>

#include <vector>

#include "config/model_keys.h"
#include "decoder/rewrite/drop_channels.h"
#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"
#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

bool wanted(const TracePhase& phase) { return phase.training && phase.options.dropout > 0; }

void change_feed_forwards(Recording& recording, const BlockContext& context) {
  namespace in = operand::linear;
  const double rate = context.phase.options.dropout;
  Rewriter r(recording, context);
  r.run([&](NodeId id) {
    const Node& node = r.from().node(id);
    if (node.op->def->facts.product != Product::rows ||
        !is_last_matrix(r.recording(), node.inputs[in::kW]))
      return false;
    if (r.in_region())
      refuse_option(fmt::format("model.{}", config::kDropout),
                    "a layer of this model has its feed-forward in a region over time, where "
                    "nothing can be drawn");
    std::vector<Tensor> operands = r.operands(id);
    operands[in::kX] =
        drop_channels(operands[in::kX], [&](Tensor ones) { return r.dropout(ones, rate); });
    r.copy(id, operands);
    return true;
  });
}

// Results that are the layer's output are replaced, too.
void change_result(Recording& recording, const BlockContext& context) {
  const BlockOptions& options = context.phase.options;
  if (!context.is_layer() || options.layer_dropout == LayerDropout::none) return;
  BlockGraph& block = recording.block;
  const Tensor x = block.graph.tensor(recording.results[0]);
  const auto dropped = [&](Tensor y) {
    return drop_channels(
        y, [&](Tensor ones) { return add_dropout(block, context, ones, options.dropout); });
  };
  const Tensor input = block.graph.tensor(recording.carries[0]);
  const Tensor left =
      options.layer_dropout == LayerDropout::output ? dropped(x) : input + dropped(x - input);
  for (ValueId& result : recording.results)
    if (result == x.id) result = left.id;
}

void apply(Recording& recording, const BlockContext& context) {
  change_feed_forwards(recording, context);
  change_result(recording, context);
}

}  // namespace

Tensor drop_channels(Tensor x, const std::function<Tensor(Tensor ones)>& draw) {
  const DType wide = sum_dtype(x.dtype());
  Shape shape = x.shape();
  shape[-2] = 1;
  const Tensor mask = draw(ops::constant(*x.graph, {wide, shape, {}}, 1));
  return ops::cast(ops::cast(x, wide) * mask, x.dtype());
}

constinit const Rewrite kDropout = {"dropout", wanted, apply};

}  // namespace lamina::decoder
