#include "decoder/graph/embedding.h"

#include <algorithm>
#include <cmath>

#include "decoder/rewrite/drop_channels.h"

namespace lamina::decoder {
namespace {

// concat(sin, cos) of position * 10000^(-i / (D/2 - 1)), and a 0 if D is odd. Vaswani et al. 2017,
// section 3.5, with the halves apart.
Tensor sinusoids(Tensor x, Tensor positions) {
  std::int64_t half = x.dim(-1) / 2;
  Tensor index = ops::iota(*x.graph, {.shape = {1, 1, half}, .dtype = "f32", .dim = 2});
  Tensor frequency = ops::exp(ops::scale(
      index, -std::log(10000.0) / static_cast<double>(std::max<std::int64_t>(half - 1, 1))));
  Tensor position = ops::reshape(ops::cast(positions, DType::f32), {x.dim(0), x.dim(1), 1});
  Tensor angle = position * frequency;
  Tensor both = ops::concat({ops::sin(angle), ops::cos(angle)}, {.dim = 2});
  if (x.dim(-1) % 2 != 0) both = ops::pad(both, {.dim = 2, .after = 1});
  return ops::cast(both, x.dtype());
}

}  // namespace

Tensor embed(GraphBuilder& to, Tensor tokens, Tensor positions, std::int64_t stream) {
  const ModelParts& parts = to.parts();
  const registry::EmbedSpec& spec = parts.options.embed;
  Tensor x = ops::embedding(to.parameter(parts.embed), tokens);
  x = without_channels(to, ops::scale(x, spec.scale), stream);
  if (spec.positions == registry::Positions::sinusoidal || parts.sinusoids)
    x = x + sinusoids(x, positions);
  if (parts.positions >= 0) x = x + ops::embedding(to.parameter(parts.positions), positions);
  if (to.phase().training && spec.dropout > 0)
    x = ops::dropout(x, to.host_input(Input::seed), {}, {.rate = spec.dropout, .stream = stream});
  return x;
}

Tensor embedding(GraphBuilder& to) {
  const ModelParts& parts = to.parts();
  bool positions = parts.positions >= 0 || parts.sinusoids ||
                   parts.options.embed.positions != registry::Positions::none;
  Tensor x = embed(to, to.host_input(Input::tokens),
                   positions ? to.host_input(Input::positions) : Tensor{});
  if (to.phase().embedding_overrides.count > 0)
    x = with_embedding_overrides(to, x, to.host_input(Input::override_index));
  to.set_host_input(Input::embedding, x);
  return x;
}

Tensor with_embedding_overrides(GraphBuilder& to, Tensor x, Tensor index) {
  Tensor rows = ops::embedding(to.host_input(Input::embedding_overrides), index);
  Tensor own = ops::less(index, ops::constant(to.graph(), {DType::i32, {1, 1}, {}}, 0));
  return ops::select(ops::reshape(own, {to.phase().batch, to.phase().tokens, 1}), x, rows);
}

Tensor without_channels(GraphBuilder& to, Tensor x, std::int64_t stream) {
  const double rate = to.phase().options.dropout;
  if (!to.phase().training || rate == 0) return x;
  return drop_channels(x, [&](Tensor ones) {
    return ops::dropout(ones, to.host_input(Input::seed), {}, {.rate = rate, .stream = stream});
  });
}

}  // namespace lamina::decoder
