#include "decoder/graph/initialisers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "config/model_keys.h"
#include "decoder/graph/stack_keys.h"
#include "lamina/names.h"

namespace lamina::decoder {
namespace {

using registry::InitSpec;
using registry::Role;

// Deviation of a standard normal distribution that is truncated at 2.
constexpr double kCutDeviation = 0.87962566103423978;

InitSpec normal(double variance) { return {InitSpec::Kind::normal, std::sqrt(variance), 0}; }
InitSpec cut_normal(double variance) {
  return {InitSpec::Kind::truncated_normal, std::sqrt(variance) / kCutDeviation, 0};
}

bool has_axis(const registry::ParamDesc& desc, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) {
    return std::ranges::find(desc.axes, intern_axis(name)) != desc.axes.end();
  });
}

bool is_of_heads(const registry::ParamDesc& desc) {
  return has_axis(desc, {LAMINA_AXIS_HEADS, LAMINA_AXIS_KV_HEADS, LAMINA_AXIS_QKV,
                         LAMINA_AXIS_HEAD_DIM, LAMINA_AXIS_Q_LORA, LAMINA_AXIS_KV_LORA});
}

// "layers.3.attention.indexer.wk.weight" is in the part "attention" of "layers.3.".
std::pair<std::string_view, std::string_view> part_of(const Parameter& p) {
  const std::string_view name = p.name, inner = p.desc.name;
  return {name.substr(0, name.size() - inner.size()), inner.substr(0, inner.find('.'))};
}

// The other parameters near a matrix in its layer.
class Surroundings {
 public:
  explicit Surroundings(const ModelParts& parts) {
    for (const Parameter& p : parts.parameters.all()) {
      if (p.desc.role == Role::router) with_router_.insert(part_of(p).first);
      if (p.desc.role == Role::conv) recurrent_.insert(part_of(p));
      if (p.desc.role == Role::weight && is_of_heads(p.desc)) attention_.insert(part_of(p));
    }
  }
  bool has_router(const Parameter& p) const { return with_router_.contains(part_of(p).first); }
  bool is_recurrent(const Parameter& p) const { return recurrent_.contains(part_of(p)); }
  bool is_attention(const Parameter& p) const { return attention_.contains(part_of(p)); }

 private:
  std::set<std::string_view> with_router_;
  std::set<std::pair<std::string_view, std::string_view>> recurrent_, attention_;
};

InitSpec of_matrix(const Parameter& p, const Surroundings& around, double scale) {
  const Shape& shape = p.desc.shape;
  const auto inputs = static_cast<double>(shape[-1]);
  if (has_axis(p.desc, {LAMINA_AXIS_EXPERTS}))
    return cut_normal(scale / static_cast<double>(shape[0] * shape[1]));
  if (around.is_recurrent(p)) return cut_normal(1 / inputs);
  const bool anonymous = std::ranges::all_of(p.desc.axes, [](AxisId axis) { return axis == 0; });
  if (around.is_attention(p) && !anonymous) return normal(1 / inputs);
  const AxisId embed = intern_axis(LAMINA_AXIS_EMBED);
  const bool within_stream =
      std::ranges::all_of(p.desc.axes, [&](AxisId axis) { return axis == embed; });
  return cut_normal((around.has_router(p) && !within_stream ? scale : 1) / inputs);
}

InitSpec of_table(const ModelParts& parts, int index) {
  const Parameter& p = parts.parameters[index];
  if (index == parts.embed || index == parts.positions) return normal(1);
  auto width = static_cast<double>(p.desc.shape[-1]);
  // A row of the entry's table contains one row per layer.
  const registry::EmbedSpec& embed = parts.options.embed;
  if (p.block == embed.entry && embed.num_per_layer > 0)
    width /= static_cast<double>(parts.config.num_layers());
  return normal(1 / width);
}

InitSpec started(const ModelParts& parts, int index, const Surroundings& around, double scale) {
  const Parameter& p = parts.parameters[index];
  const auto last = [&] { return static_cast<double>(p.desc.shape[-1]); };
  switch (p.desc.role) {
    case Role::embedding:
      return of_table(parts, index);
    case Role::head:
    case Role::conv:
      return cut_normal(1 / last());
    case Role::router:
      return cut_normal(scale / last());
    case Role::weight:
      return of_matrix(p, around, scale);
    case Role::bias:
    case Role::scalar:
      return {InitSpec::Kind::zeros, 0, 0};
    case Role::norm:
      break;
  }
  return p.desc.init;
}

}  // namespace

void apply_initializer(ModelParts& parts) {
  const config::Entry* wanted = given_key(parts, config::kInitializer);
  const config::Entry* scale = given_key(parts, config::kDenseInitScale);
  const bool maxtext =
      wanted != nullptr && wanted->value == config::Value(std::string(config::kInitializerMaxtext));
  if (scale != nullptr && !maxtext)
    refuse_key(*scale, fmt::format("'{}' is not \"{}\"", config::kInitializer,
                                   config::kInitializerMaxtext));
  if (!maxtext) return;
  const double factor = scale == nullptr ? 1 : std::get<double>(scale->value.data);
  const Surroundings around(parts);
  for (int i = 0; i < std::ssize(parts.parameters.all()); ++i) {
    const Parameter& p = parts.parameters[i];
    const bool own = p.desc.name.starts_with("engram.");
    if (p.desc.init.kind == InitSpec::Kind::normal && !own)
      parts.parameters.set_init(i, started(parts, i, around, factor));
  }
}

}  // namespace lamina::decoder
