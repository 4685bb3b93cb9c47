#include "decoder/graph/graph_builder.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace lamina::decoder {

Tensor GraphBuilder::host_input(Input role) {
  auto [at, fresh] = host_inputs_.try_emplace(role);
  if (!fresh) return at->second;
  LAMINA_ASSERT(role != Input::embedding);  // embedding() sets it
  if (role == Input::positions_3d && !phase_.positions_3d) {
    Tensor one = ops::reshape(host_input(Input::positions), {1, phase_.batch, phase_.tokens});
    return host_inputs_[role] = ops::broadcast(one, {3, phase_.batch, phase_.tokens});
  }
  InputRole added{role, {}, false, {}};
  if (role == Input::compressed_tokens)
    added.values.assign(parts_.engram->ids.begin(), parts_.engram->ids.end());
  return at->second = add_input(std::string(role_name(role)), host_input_type(role, phase_),
                                std::move(added));
}

Tensor GraphBuilder::parameter(int index) {
  auto [at, fresh] = parameters_.try_emplace(index);
  if (fresh) {
    const Parameter& p = parts_.parameters[index];
    at->second = add_input(p.name, param_type(p.desc, p), {Input::parameter, {index}, false, {}});
  }
  return at->second;
}

Tensor GraphBuilder::add_input(std::string name, const Type& type, InputRole role) {
  out_.inputs.push_back(std::move(role));
  return graph().add_input(std::move(name), type);
}

void GraphBuilder::add_output(std::string name, Tensor value, OutputRole role, int alias) {
  graph().add_output(std::move(name), value, alias);
  out_.outputs.push_back(std::move(role));
}

void GraphBuilder::add_output(Output role, Tensor value) {
  add_output(std::string(role_name(role)), value, {.role = role});
}

void GraphBuilder::add_hidden(std::string name, Tensor x, std::vector<std::int64_t> layers,
                              bool stacked) {
  add_output(std::move(name), x,
             {.role = Output::hidden, .layers = std::move(layers), .stacked = stacked});
}

Type GraphBuilder::param_type(const registry::ParamDesc& desc, const Parameter& p) const {
  Type type{p.used_dtype(phase_.dtype), desc.shape, {}};
  std::copy_n(desc.axes.begin(), std::min<std::size_t>(desc.axes.size(), kMaxDims),
              type.axes.begin());
  return type;
}

std::shared_ptr<const Graph> GraphBuilder::shared_body(std::shared_ptr<const Graph> body) {
  for (const std::shared_ptr<const Graph>& known : bodies_)
    if (same_graph(*known, *body)) return known;
  bodies_.push_back(body);
  return body;
}

}  // namespace lamina::decoder
