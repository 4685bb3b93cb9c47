// The loss of DeepSeek V4's indexer: it learns to score entries as attention weighs them. V4's loss
// is not published; this is DeepSeek-AI, "DeepSeek-V3.2", 2025, section 2.1, with entries instead
// of tokens.
//
// Shapes: B batch, T tokens, W entries, N heads, H head width, S = T + W + 1 rows attended to.

#include <algorithm>
#include <cmath>

#include "deepseek4.h"

namespace deepseek4 {
namespace {

using namespace lamina::sdk;

constexpr double kTiny = 1e-8;  // keeps logarithms and quotients finite

Tensor truth(Tensor condition) { return cast(condition, "f32"); }
Tensor is_not(Tensor condition) { return shift(-truth(condition), 1); }

// x, and far less where it is not kept.
Tensor masked(Tensor x, Tensor kept, Tensor nothing) {
  return select(kept, x, cast_like(shift(nothing, -1e30), x));
}

// Visibility of tokens and entries: 1 or 0.
struct Seen {
  Tensor tokens_BTT, entries_BTW;
};

// As in compressed_attention: tokens of the window, and entries whose window has ended, both in the
// same document. The position of its first token identifies a document.
Seen seen_by(const Scope& s, const Config& c, const Step& step, const Windows& windows,
             std::int64_t b, std::int64_t t, std::int64_t w) {
  Tensor query = iota(s, {.shape = {1, t, 1}, .dim = 1}),
         key = iota(s, {.shape = {1, 1, t}, .dim = 2});
  Tensor document = iota(s, {.shape = {1, t}, .dim = 1}) - step.positions_BT;
  Tensor of_query = reshape(document, {b, t, 1}),
         zero = constant(s, {.shape = {1, 1, 1}, .dtype = "i32"});
  Tensor width = constant(
      s, {.shape = {1, 1, 1}, .dtype = "i32", .value = static_cast<double>(c.sliding_window)});
  Tensor ends = reshape(windows.ends_BW, {b, 1, w});
  Tensor first =
      ends - shift(reshape(windows.starts_BW, {b, 1, w}), static_cast<double>(windows.ratio - 1));
  return {is_not(less(query, key)) * truth(less(query - key, width)) *
              truth(equal(of_query, reshape(document, {b, 1, t}))),
          is_not(less(ends, zero)) * is_not(less(query, ends)) * truth(equal(of_query, first))};
}

// The k best-scoring entries among the visible ones.
Tensor chosen(const Scope& s, Tensor scores_BTW, Tensor seen_BTW, std::int64_t k) {
  Tensor none = constant(s, {.shape = {}});
  Tensor ids = top_k(masked(scores_BTW, less(none, seen_BTW), none), {.k = k})[1];
  Tensor ones = truth(equal(ids, ids));
  return truth(less(none, scatter_along(ones, ids, scores_BTW.dim(2)))) * seen_BTW;
}

}  // namespace

// The KL divergence of the softmax of the scores from the attention of all heads together, both
// over the entries that attention sees. The window and the sinks also take a part of each head's
// attention. A sink is one more row here: the head has one more dim, which is the sink in queries
// and 1 in that row.
void keep_indexer_loss(Scope s, const Config& c, const Step& step, const Attended& of,
                       Tensor scores_BTW) {
  const Dims shape = of.q_BTNH.shape();
  const std::int64_t b = shape[0], t = shape[1], n = shape[2], h = shape[3],
                     w = of.entries_BWH.dim(1);
  // If every entry is visible there is no choice to learn; decoding scores all entries that it
  // keeps.
  if (c.indexer_loss_weight == 0 || w != scores_BTW.dim(2) || w <= c.index_topk) return;
  const Seen seen = seen_by(s, c, step, of.windows, b, t, w);
  const Tensor learned_BTW = c.indexer_sparse_training
                                 ? chosen(s, scores_BTW, seen.entries_BTW, c.index_topk)
                                 : seen.entries_BTW;
  const double factor = 1 / std::sqrt(static_cast<double>(h));
  Tensor sinks = broadcast(reshape(scale(of.sinks_N, 1 / factor), {1, 1, n, 1}), {b, t, n, 1});
  Tensor q = concat({of.q_BTNH, cast_like(sinks, of.q_BTNH)}, 3);
  Tensor rows = pad(concat({of.kv_BTH, of.entries_BWH}, 1), {.dim = 2, .after = 1});
  Tensor sink_row = pad(constant(s, {.shape = {b, 1, 1}, .value = 1}), {.dim = 2, .before = h});
  rows = concat({rows, cast_like(sink_row, rows)}, 1);
  const std::int64_t all = t + w + 1;
  Tensor k = broadcast(reshape(rows, {b, all, 1, h + 1}), {b, all, n, h + 1});
  Tensor nothing = constant(s, {.shape = {}}),
         everywhere = constant(s, {.shape = {b, t, 1}, .value = 1});
  Tensor mask = less(nothing, concat({seen.tokens_BTT, learned_BTW, everywhere}, 2));
  Tensor p_BTS = stop_gradient(attention_mass(q, k, mask, factor));
  Tensor p_BTW = columns(p_BTS, t, w);
  Tensor target = p_BTW / shift(reduce_sum(p_BTW, {.dims = {2}, .keep = true}), kTiny);
  Tensor predicted = softmax(masked(scores_BTW, less(nothing, learned_BTW), nothing));
  Tensor divergence = target * (log(shift(target, kTiny)) - log(shift(predicted, kTiny)));
  step.loss("indexer_loss", counted_mean(reduce_sum(divergence, {.dims = {2}})),
            {.weight_key = "indexer_loss_weight", .mean = true});
}

}  // namespace deepseek4
