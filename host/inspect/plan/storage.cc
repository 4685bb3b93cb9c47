#include "inspect/plan/storage.h"

#include <fmt/format.h>

#include <algorithm>

namespace lamina::inspect {
namespace {

using decoder::Parameter;

struct Group {
  ParameterStorage out;
  std::string inner;                 // the name inside the layer; empty outside
  std::vector<std::int64_t> layers;  // ascending
};

// "3", "0-27", "0-3+8-11"
std::string ranges_text(const std::vector<std::int64_t>& layers) {
  std::string out;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    if (!out.empty()) out += '+';
    out += last == i ? fmt::format("{}", layers[i]) : fmt::format("{}-{}", layers[i], layers[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace

std::vector<ParameterStorage> parameter_storage(const decoder::Model& model, DType compute) {
  std::vector<Group> groups;
  bool any = false;
  for (const Parameter& p : model.parameters().all()) {
    const Type type = p.used_type(compute);
    any = any || type.storage;
    const std::string storage(type.storage ? type.storage->name : long_name(type.dtype));
    const std::string inner = p.layer < 0 ? "" : p.desc.name;
    auto group = std::ranges::find_if(groups, [&](const Group& g) {
      return !inner.empty() && g.inner == inner && g.out.shape == type.shape &&
             g.out.storage == storage;
    });
    if (group == groups.end())
      group = groups.insert(groups.end(), {{p.name, type.shape, 0, storage, 0}, inner, {}});
    ++group->out.count;
    group->out.bytes += type.bytes();
    if (p.layer >= 0) group->layers.push_back(p.layer);
  }
  std::vector<ParameterStorage> out;
  if (!any) return out;
  for (Group& g : groups) {
    if (!g.inner.empty()) g.out.name = fmt::format("layers.{}.{}", ranges_text(g.layers), g.inner);
    out.push_back(std::move(g.out));
  }
  return out;
}

}  // namespace lamina::inspect
