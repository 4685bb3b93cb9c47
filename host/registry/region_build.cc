// Regions over time (ext/time_region.h) in the build of a block: handles are checked here, the
// trace builds the body.
#include <algorithm>

#include "registry/block_build.h"

namespace lamina::registry {

void BlockBuild::refuse_in_region(std::string_view what) const {
  if (!regions_.empty() && regions_.back().second == 0)
    abi::refuse("{} is not allowed in the body of a region over time; add it outside", what);
}

std::vector<Tensor> BlockBuild::tensors(const lamina_span_t& handles,
                                        const std::string& what) const {
  std::vector<Tensor> out;
  for (lamina_tensor_t handle : abi::plain<lamina_tensor_t>(handles, what))
    out.push_back(tensor(handle, fmt::format("{} {}", what, out.size())));
  return out;
}

void BlockBuild::hand_out(std::span<const Tensor> values, lamina_tensor_t* to,
                          const std::string& what) {
  if (!values.empty() && to == nullptr) abi::refuse("the pointer for {} is null", what);
  for (std::size_t i = 0; i < values.size(); ++i) to[i] = hand_out(values[i]);
}

void BlockBuild::begin_region(const lamina_time_region_t* from) {
  const auto given = abi::copy(from, "lamina_time_region_t");
  refuse_in_region("another region over time");
  std::vector<int> states;
  for (lamina_state_t handle : abi::plain<lamina_state_t>(given.states, "the states of a region")) {
    const std::string what = fmt::format("state {} of a region", states.size());
    const auto index = state_index(handle, what);
    const StateDesc& state = states_[index];
    if (state.kind != StateKind::custom)
      abi::refuse("state '{}' has kind {}; states of a region over time must have kind {}",
                  state.name, ops::to_string(state.kind), ops::to_string(StateKind::custom));
    if (std::ranges::find(region_states_, index) != region_states_.end())
      abi::refuse(
          "state '{}' is given to regions over time twice; every carry needs a separate "
          "state",
          state.name);
    region_states_.push_back(index);
    states.push_back(static_cast<int>(index));
  }
  const std::vector<Tensor> inputs = tensors(given.inputs, "input of a region");
  const auto first = static_cast<NodeId>(trace_.graph().nodes().size());
  const std::vector<Tensor> body = trace_.begin_region(states, inputs);
  regions_.emplace_back(first, 0);
  const std::span all(body);
  hand_out(all.first(states.size()), given.carries, "the carries of a region");
  hand_out(all.subspan(states.size()), given.tokens, "the tokens of a region");
}

void BlockBuild::end_region(const lamina_time_results_t* from) {
  const auto given = abi::copy(from, "lamina_time_results_t");
  if (regions_.empty() || regions_.back().second != 0)
    abi::refuse("a region over time ends, but none is open");
  if (lowering_ && regions_.size() <= lowering_->first_region)
    abi::refuse("a region over time ends in the lowering of op '{}', which did not begin it",
                lowering_->op);
  const std::vector<Tensor> carries = tensors(given.carries, "carry of a region");
  const std::vector<Tensor> results = tensors(given.results, "result of a region");
  const auto end = static_cast<NodeId>(trace_.graph().nodes().size());
  const std::vector<Tensor> outputs = trace_.end_region(carries, results);
  regions_.back().second = end;
  hand_out(outputs, given.outputs, "the outputs of a region");
}

}  // namespace lamina::registry
