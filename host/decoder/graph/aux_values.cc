// Outputs: a loss is pooled over layers, a metric has one element per layer.
#include "decoder/graph/aux_values.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/error.h"

namespace lamina::decoder {
namespace {

Tensor sum_of(Tensor total, Tensor more) { return total ? total + more : more; }

std::vector<std::int64_t> all_dims(Tensor x) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.ndim()));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// Returns the auxiliary loss that several layers have under one name, [] of `dtype`.
Tensor pooled(std::span<const AuxValue> parts, DType dtype) {
  double layers = 0;
  Tensor value, other;
  for (const AuxValue& part : parts) {
    layers += static_cast<double>(part.layers.size());
    auto summed = [&](Tensor t) { return ops::reduce_sum(ops::cast(t, dtype), {0}); };
    value = sum_of(value, summed(part.value));
    if (part.other) other = sum_of(other, summed(part.other));
  }
  const registry::AuxDesc& desc = parts.front().desc;
  if (desc.reduce == Reduce::mean) value = ops::scale(value, 1 / layers);
  if (!other) return value;
  Tensor product = value * ops::scale(other, 1 / layers);
  return product.ndim() == 0 ? product : ops::reduce_sum(product, all_dims(product));
}

// Returns the metric of all layers that have it, [layers, ...], with their indices.
std::pair<Tensor, std::vector<std::int64_t>> joined(std::span<const AuxValue> parts) {
  std::vector<Tensor> values;
  std::vector<std::int64_t> layers;
  for (const AuxValue& part : parts) {
    values.push_back(ops::cast(part.value, DType::f32));
    layers.insert(layers.end(), part.layers.begin(), part.layers.end());
  }
  return {ops::joined(values), layers};
}

void check_agreement(std::span<const AuxValue> parts) {
  const AuxValue& first = parts.front();
  for (const AuxValue& part : parts)
    if (part.desc.kind != first.desc.kind || part.desc.weight_key != first.desc.weight_key ||
        part.desc.reduce != first.desc.reduce ||
        static_cast<bool>(part.other) != static_cast<bool>(first.other) ||
        part.value.shape().without_leading() != first.value.shape().without_leading())
      throw PluginError({first.desc.name,
                         fmt::format("is declared differently by layers {} and {}", first.layers[0],
                                     part.layers[0]),
                         {"give it one shape, weight and reduction, or two names"}});
}

}  // namespace

std::vector<LayerMetric> layer_metrics(Tensor x) {
  x = ops::cast(x, sum_dtype(x.dtype()));
  const std::vector<std::int64_t> dims = all_dims(x);
  const auto size = static_cast<double>(x.shape().num_elements());
  auto mean_of = [&](Tensor t) { return ops::scale(ops::reduce_sum(t, dims, true), 1 / size); };
  std::vector<LayerMetric> out;
  auto add = [&](const char* name, Tensor value) {
    out.push_back({name, ops::reshape(value, {})});
  };
  Tensor mean = mean_of(x);
  Tensor zero = ops::constant(*x.graph, mean.type(), 0);
  add("activation_mean", mean);
  add("activation_stdev", ops::sqrt(mean_of(ops::square(x - mean))));
  add("activation_zeros", mean_of(ops::cast(ops::equal(x, zero), x.dtype())));
  return out;
}

std::size_t AuxOutputs::add(AuxValue value) {
  values_.push_back(std::move(value));
  return values_.size() - 1;
}

Tensor AuxOutputs::add_outputs(GraphBuilder& to) {
  std::ranges::stable_sort(values_, {}, [](const AuxValue& s) { return s.desc.name; });
  Tensor weighted;
  for (auto begin = values_.begin(); begin != values_.end();) {
    auto end = std::find_if(begin, values_.end(),
                            [&](const AuxValue& s) { return s.desc.name != begin->desc.name; });
    std::span<const AuxValue> parts(begin, end);
    check_agreement(parts);
    const registry::AuxDesc& desc = begin->desc;
    if (desc.kind == registry::AuxDesc::Kind::loss) {
      Tensor loss = pooled(parts, sum_dtype(to.phase().dtype));
      to.add_output(desc.name, loss, {.role = Output::named_loss, .name = desc.name});
      const double weight = to.parts().config.factor(desc.weight_key);
      if (weight != 0) weighted = sum_of(weighted, ops::scale(loss, weight));
    }
    const bool of_layers = !begin->other && begin->value.ndim() == 1;  // not of all together
    if (desc.kind == registry::AuxDesc::Kind::metric || (to.phase().layer_metrics && of_layers)) {
      auto [values, layers] = joined(parts);
      to.add_output(desc.name, values,
                    {.role = Output::metric, .layers = layers, .name = desc.name});
      const bool metric = desc.kind == registry::AuxDesc::Kind::metric;
      to.out().metrics[desc.name] = metric ? desc.reduce : Reduce::mean;
    }
    begin = end;
  }
  return weighted;
}

}  // namespace lamina::decoder
