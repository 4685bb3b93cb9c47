#include "decoder/graph/stored_parameters.h"

#include <algorithm>

#include "core/error.h"
#include "passes/store_inputs.h"

namespace lamina::decoder {

void keep_storable(const ModelGraph& graph, std::vector<bool>& storable) {
  const std::vector<bool> inputs = passes::storable_inputs(graph.graph);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (graph.inputs[i].role == Input::parameter && !inputs[i])
      for (int parameter : graph.inputs[i].members)
        storable[static_cast<std::size_t>(parameter)] = false;
}

void store_parameters(ModelGraph& graph, const ParameterTable& parameters, bool training) {
  const auto storage_of = [&](int parameter) {
    const Parameter& p = parameters[parameter];
    return training && !p.learning.frozen ? nullptr : p.storage;
  };
  std::vector<const formats::BlockFormat*> storages;
  for (const GraphInput& input : graph.graph.inputs())  // states may have one already
    storages.push_back(graph.graph.type(input.value).storage);
  bool is_plain = true;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (graph.inputs[i].role != Input::parameter) continue;
    const std::vector<int>& members = graph.inputs[i].members;
    storages[i] = storage_of(members.front());
    // Model::set_storage() cuts segments between layers that differ.
    for (int member : members) LAMINA_ASSERT(storage_of(member) == storages[i]);
    is_plain = is_plain && storages[i] == nullptr;
  }
  if (!is_plain) graph.graph = passes::store_inputs(graph.graph, storages);
}

}  // namespace lamina::decoder
