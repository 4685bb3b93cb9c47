#include "decoder/graph/head.h"

#include <string>
#include <utility>

#include "core/round_up.h"
#include "decoder/graph/embedding.h"
#include "decoder/graph/scan_builder.h"

namespace lamina::decoder {
namespace {

Tensor logits_of(const registry::HeadSpec& head, Tensor rows, Tensor weight, Tensor bias) {
  Tensor logits = ops::matmul(rows, weight, false, true, sum_dtype(rows.dtype()));
  logits = ops::scale(logits, head.logit_scale);
  if (bias) logits = logits + ops::cast(bias, logits.dtype());
  if (head.soft_cap != 0) logits = ops::soft_cap(logits, {.cap = head.soft_cap});
  return logits;
}

}  // namespace

Tensor final_norm(GraphBuilder& to, Tensor x) {
  const ModelParts& parts = to.parts();
  const registry::NormSpec& spec = parts.options.head.norm;
  if (!spec.op) return x;
  std::vector<Tensor> inputs{x, parts.norm >= 0 ? to.parameter(parts.norm) : Tensor{}};
  if (parts.norm_bias >= 0) inputs.push_back(to.parameter(parts.norm_bias));
  std::vector<std::pair<std::string_view, AttrValue>> attrs(spec.attrs.begin(), spec.attrs.end());
  return to.graph().add_node(*spec.op, inputs, attrs).front();
}

// The embedding has stream 0; entry, exit and prediction small negative ones, layers positive ones.
Tensor for_head(GraphBuilder& to, Tensor normed, std::int64_t depth) {
  constexpr std::int64_t kFirstStream = -(1 << 20);
  return without_channels(to, normed, kFirstStream - depth);
}

Tensor head_bias(GraphBuilder& to) {
  return to.parts().head_bias >= 0 ? to.parameter(to.parts().head_bias) : Tensor{};
}

Tensor logits(GraphBuilder& to, Tensor x) {
  return logits_of(to.parts().options.head, ops::as_rows(x), to.parameter(to.parts().head_weight()),
                   head_bias(to));
}

TokenLosses token_losses(GraphBuilder& to, Tensor x, Tensor labels) {
  const registry::HeadSpec& head = to.parts().options.head;
  const auto sums = ops::cross_entropy(
      ops::as_rows(x), to.parameter(to.parts().head_weight()), labels, head_bias(to),
      {.soft_cap = head.soft_cap, .logit_scale = head.logit_scale});
  return {sums.loss, sums.z_loss, sums.uniform_loss, sums.token_loss};
}

Tensor choices(GraphBuilder& to, Tensor x) {
  const auto best = [](Tensor logits) { return std::vector{ops::top_k(logits, {.k = 1}).ids}; };
  Tensor out = of_logits(to, x, best).front();
  return ops::reshape(out, {out.dim(0)});
}

std::vector<Tensor> of_logits(GraphBuilder& to, Tensor x,
                              const std::function<std::vector<Tensor>(Tensor logits)>& use) {
  constexpr std::int64_t kBlockRows = 64;
  Tensor rows = ops::as_rows(x), weight = to.parameter(to.parts().head_weight());
  const std::int64_t count = rows.dim(0), times = divide_up(count, kBlockRows);
  if (std::int64_t missing = times * kBlockRows - count; missing > 0)
    rows = ops::pad(rows, {.dim = 0, .after = missing});
  std::vector<std::pair<std::string, Tensor>> consts{{"head", weight}};
  const Tensor bias = head_bias(to);
  if (bias) consts.emplace_back("head bias", bias);
  ScanBuilder scan(to.graph(), times, consts, {});
  Tensor block = scan.add_x("rows", ops::reshape(rows, {times, kBlockRows, rows.dim(1)}));
  const std::vector<Tensor> results =
      use(logits_of(to.parts().options.head, block, scan.inner_const(weight),
                    bias ? scan.inner_const(bias) : Tensor{}));
  std::vector<Tensor> out(results.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    scan.add_y("of logits", results[i], [&out, i](Tensor all) { out[i] = all; });
  scan.finish([](auto body) { return body; });
  for (Tensor& all : out)
    all = ops::slice(ops::reshape(all, {times * kBlockRows, all.dim(-1)}), 0, 0, count);
  return out;
}

}  // namespace lamina::decoder
