// What layers keep for the host, as outputs of a graph: losses pooled over layers, metrics of each.
#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "decoder/graph/assembler.h"

namespace lamina::decoder {
namespace {

Tensor sum_of(Tensor total, Tensor more) { return total ? total + more : more; }

std::vector<std::int64_t> all_dims(Tensor x) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.ndim()));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// The loss that several layers sow under one name, f32[].
Tensor pooled(std::span<const SownValue> parts) {
  double layers = 0;
  Tensor value, other;
  for (const SownValue& part : parts) {
    layers += static_cast<double>(part.layers.size());
    auto summed = [](Tensor t) { return ops::reduce_sum(ops::cast(t, DType::f32), {0}); };
    value = sum_of(value, summed(part.value));
    if (part.other) other = sum_of(other, summed(part.other));
  }
  const registry::SowDesc& desc = parts.front().desc;
  if (desc.reduce == Reduce::mean) value = ops::scale(value, 1 / layers);
  if (!other) return value;
  Tensor product = value * ops::scale(other, 1 / layers);
  return product.ndim() == 0 ? product : ops::reduce_sum(product, all_dims(product));
}

// The metric of all layers that sow it, [layers, ...], with their indices.
std::pair<Tensor, std::vector<std::int64_t>> joined(std::span<const SownValue> parts) {
  std::vector<Tensor> values;
  std::vector<std::int64_t> layers;
  for (const SownValue& part : parts) {
    values.push_back(ops::cast(part.value, DType::f32));
    layers.insert(layers.end(), part.layers.begin(), part.layers.end());
  }
  return {ops::joined(values), layers};
}

void check_agreement(std::span<const SownValue> parts) {
  const SownValue& first = parts.front();
  for (const SownValue& part : parts)
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

// Mean, population standard deviation and share of zeros of what a layer hands on, padding
// included.
void Assembler::sow_statistics(const Place& place, Tensor x) {
  x = ops::cast(x, sum_dtype(x.dtype()));
  const std::vector<std::int64_t> dims = all_dims(x);
  const auto size = static_cast<double>(x.shape().num_elements());
  auto mean_of = [&](Tensor t) { return ops::scale(ops::reduce_sum(t, dims, true), 1 / size); };
  auto sow = [&](const char* name, Tensor value) {
    const std::size_t index = sown_.size();
    SownValue& sown = sown_.emplace_back();
    sown.desc.kind = registry::SowDesc::Kind::metric;
    sown.desc.name = name;
    sown.desc.reduce = Reduce::mean;
    sown.layers = place.layers;
    collect(place, name, ops::reshape(value, {}),
            [this, index](Tensor t) { sown_[index].value = t; });
  };
  Tensor mean = mean_of(x);
  Tensor zero = ops::constant(*x.graph, mean.type(), 0);
  sow("activation_mean", mean);
  sow("activation_stdev", ops::sqrt(mean_of(ops::square(x - mean))));
  sow("activation_zeros", mean_of(ops::cast(ops::equal(x, zero), x.dtype())));
}

void Assembler::add_sown_outputs() {
  std::ranges::stable_sort(sown_, {}, [](const SownValue& s) { return s.desc.name; });
  Tensor weighted;
  for (auto begin = sown_.begin(); begin != sown_.end();) {
    auto end = std::find_if(begin, sown_.end(),
                            [&](const SownValue& s) { return s.desc.name != begin->desc.name; });
    std::span<const SownValue> parts(begin, end);
    check_agreement(parts);
    const registry::SowDesc& desc = begin->desc;
    if (desc.kind == registry::SowDesc::Kind::loss) {
      Tensor loss = pooled(parts);
      add_output(desc.name, loss, {.role = Output::sown_loss, .name = desc.name});
      const double weight = parts_.config.factor(desc.weight_key);
      if (weight != 0) weighted = sum_of(weighted, ops::scale(loss, weight));
    }
    const bool of_layers = !begin->other && begin->value.ndim() == 1;  // not of all together
    if (desc.kind == registry::SowDesc::Kind::metric || (phase().layer_metrics && of_layers)) {
      auto [values, layers] = joined(parts);
      add_output(desc.name, values, {.role = Output::metric, .layers = layers, .name = desc.name});
      const bool metric = desc.kind == registry::SowDesc::Kind::metric;
      out_.metrics[desc.name] = metric ? desc.reduce : Reduce::mean;
    }
    begin = end;
  }
  if (weighted) add_output(Output::aux_loss, weighted);
}

}  // namespace lamina::decoder
