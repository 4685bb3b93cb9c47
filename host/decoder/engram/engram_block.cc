#include "decoder/engram/engram_block.h"

#include <algorithm>
#include <cmath>

#include "config/model_keys.h"
#include "core/error.h"
#include "lamina/names.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

using registry::InitSpec;
using registry::ParamDesc;

constexpr double kMinScore = 1e-6;  // below it the gate does not depend on the score

// B batch, T tokens, K streams, D model width.
class EngramBuild {
 public:
  EngramBuild(HostBuild& build, const Engram& engram, const EngramLayer& layer, const Type& x)
      : build_(build), engram_(engram), layer_(layer), shape_(x.shape), dtype_(x.dtype) {}

  // Normalises each stream by itself without a weight, then multiplies every dim of every stream by
  // a weight.
  Tensor stream_norm(const char* name, Tensor x_BTKD) {
    Tensor normed = rms_norm(x_BTKD, {});
    Tensor weight = param(name, {streams() * width()}, {LAMINA_AXIS_NORM}, registry::Role::norm,
                          {InitSpec::Kind::ones, 0, 0});
    return ops::reshape(flat(normed) * ops::cast(weight, dtype_), shape_);
  }

  Tensor norm(const char* name, Tensor x) {
    return rms_norm(x, param(name, {width()}, {LAMINA_AXIS_NORM}, registry::Role::norm,
                             {InitSpec::Kind::ones, 0, 0}));
  }

  // Returns rows of all tables for the n-grams that end at each token, side by side.
  Tensor look_up() {
    Tensor ids = build_.remember(
        ops::ngram_hash(build_.input(Input::tokens), build_.input(Input::compressed_tokens), {},
                        {.multipliers = layer_.multipliers,
                         .sizes = layer_.sizes,
                         .pad = engram_.pad,
                         .across = across()}),
        {.name = "engram.history",
         .kind = registry::StateKind::token_history,
         .dims = {engram_.max_ngram - 1},
         .axes = {AxisId{0}}});
    Tensor table =
        param("engram.table.weight", {layer_.num_rows(), engram_.head_dim},
              {LAMINA_AXIS_VOCAB, LAMINA_AXIS_EMBED}, registry::Role::embedding,
              {InitSpec::Kind::normal, 1 / std::sqrt(static_cast<double>(engram_.head_dim)), 0});
    Tensor rows = ops::cast(ops::embedding(table, ids), dtype_);
    return ops::reshape(rows, {shape_[0], shape_[1], row_width()});
  }

  Tensor product(const std::string& name, Tensor rows, std::int64_t out) {
    Tensor w = param(name + ".weight", {out, row_width()}, {LAMINA_AXIS_EMBED, LAMINA_AXIS_ENGRAM},
                     registry::Role::weight, {InitSpec::Kind::fan_in, 1, 0});
    Tensor bias = param(name + ".bias", {out}, {LAMINA_AXIS_EMBED}, registry::Role::bias,
                        {InitSpec::Kind::zeros, 0, 0});
    return ops::linear(rows, w, bias);
  }

  // Returns sigmoid(sign(a) sqrt(|a|)) for the scores a of queries and keys, [B, T, K, 1].
  Tensor gate(Tensor query_BTKD, Tensor key_BTKD) {
    DType wide = sum_dtype(dtype_);
    Tensor products = ops::cast(query_BTKD, wide) * ops::cast(key_BTKD, wide);
    Tensor score = ops::scale(ops::reduce_sum(products, {3}, true),
                              1 / std::sqrt(static_cast<double>(width())));
    Tensor floor = ops::constant(*score.graph, {wide, {}, {}}, kMinScore);
    Tensor size = ops::maximum(ops::abs(score), floor);
    Tensor root = ops::sign(score) * ops::sqrt(size);
    return ops::cast(ops::sigmoid(root), dtype_);
  }

  Tensor convolution(Tensor x_BTKD) {
    const std::int64_t channels = streams() * width(), taps = engram_.kernel_size;
    Tensor w = param("engram.conv.weight", {channels, taps}, {LAMINA_AXIS_CONV, ""},
                     registry::Role::conv, {InitSpec::Kind::zeros, 0, 0});
    Tensor y = build_.remember(
        ops::causal_conv1d(
            flat(x_BTKD), w, {}, {},
            {.dilation = engram_.max_ngram, .activation = "silu", .across = across()}),
        {.name = "engram.conv",
         .kind = registry::StateKind::conv_window,
         .dims = {channels, (taps - 1) * engram_.max_ngram},
         .axes = {intern_axis(LAMINA_AXIS_CONV), AxisId{0}}});
    return ops::reshape(y, shape_);
  }

  const Shape& shape() const { return shape_; }
  std::int64_t streams() const { return shape_[2]; }
  std::int64_t width() const { return shape_[3]; }
  Shape per_stream(std::int64_t num_streams, std::int64_t size) const {
    return {shape_[0], shape_[1], num_streams, size};
  }

 private:
  Tensor param(std::string name, Shape shape, std::initializer_list<std::string_view> axes,
               registry::Role role, InitSpec init) {
    ParamDesc desc;
    desc.name = std::move(name);
    desc.shape = shape;
    for (std::string_view axis : axes) desc.axes.push_back(intern_axis(axis));
    desc.role = role;
    desc.init = init;
    return build_.param(desc);
  }
  Tensor rms_norm(Tensor x, Tensor weight) {
    return ops::rms_norm(x, weight, {.eps = engram_.norm_eps});
  }
  Tensor flat(Tensor x_BTKD) {
    return ops::reshape(x_BTKD, {shape_[0], shape_[1], streams() * width()});
  }
  std::int64_t row_width() const { return std::ssize(layer_.sizes) * engram_.head_dim; }
  bool across() const { return engram_.across_documents; }

  HostBuild& build_;
  const Engram& engram_;
  const EngramLayer& layer_;
  Shape shape_;
  DType dtype_;
};

}  // namespace

EngramValues engram_values(HostBuild& build, const Engram& engram, const EngramLayer& layer,
                           Tensor x_BTKD) {
  EngramBuild e(build, engram, layer, x_BTKD.type());
  Tensor rows = e.look_up();
  Tensor key = ops::reshape(e.product("engram.key", rows, e.streams() * e.width()), e.shape());
  Tensor normed_key = e.stream_norm("engram.key_norm.weight", key);
  Tensor gate = e.gate(e.stream_norm("engram.query_norm.weight", x_BTKD), normed_key);
  Tensor value =
      ops::reshape(e.product("engram.value", rows, e.width()), e.per_stream(1, e.width()));
  Tensor gated = gate * value;
  return {gated, e.convolution(e.stream_norm("engram.conv_norm.weight", gated)), rows};
}

HostBlock engram_block(const Engram& engram, const EngramLayer& layer, std::int64_t hidden_size) {
  return [&engram, &layer, hidden_size](HostBuild& build, const std::vector<Tensor>& carries) {
    const Type type = carries[0].type();
    const bool plain = type.ndim() == 3, streams = type.ndim() == 4;
    if (!(plain || streams) || type.dim(-1) != hidden_size)
      user_error(
          ExitCode::usage, config::kEngramLayers,
          "Engram adds to residual streams, [batch, tokens, {0}] or [batch, tokens, streams, "
          "{0}]; layers of this family are given {1}",
          hidden_size, to_string(type));
    Tensor x =
        ops::reshape(carries[0], {type.dim(0), type.dim(1), plain ? 1 : type.dim(2), hidden_size});
    Tensor normed = EngramBuild(build, engram, layer, x.type()).norm("engram.norm.weight", x);
    EngramValues values = engram_values(build, engram, layer, normed);
    Tensor added = build.name(values.gated + values.convolved, LAMINA_TAG_ENGRAM);
    std::vector<Tensor> out = carries;
    out[0] = ops::reshape(x + added, type.shape);
    return out;
  };
}

}  // namespace lamina::decoder
