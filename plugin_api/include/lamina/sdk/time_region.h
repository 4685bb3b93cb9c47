// Custom recurrences, written for one token: Step::scan_tokens in step.h.
#pragma once

#include "lamina/ext/time_region.h"
#include "lamina/sdk/tensor.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// A carry [B, dims...] of the body in f32; zeros at the start of a document.
struct Carry {
  std::string_view name;
  std::vector<std::int64_t> dims;
};

struct TimeRegion {
  std::vector<Carry> carries;
  std::vector<Tensor> inputs;  // [B, T, ...], at least one
};

// The results of the body for one token: the carries after it, and results [B, ...].
struct TokenResults {
  std::vector<Tensor> carries, results;
};

namespace detail {

// Traces body(carries, tokens) -> TokenResults once; returns the results of all tokens, [B, T,
// ...].
template <class Body>
std::vector<Tensor> scan_tokens(const Scope& s, const TimeRegion& region, const Body& body, At at) {
  const auto& api = extension<lamina_time_region_api_t>(LAMINA_TIME_REGION_ID, at);
  const lamina_where_t where = to_where(at);
  lamina_build_t* const build = s.build();
  const auto handles = [](const std::vector<Tensor>& tensors) {
    std::vector<lamina_tensor_t> out;
    for (Tensor t : tensors) out.push_back(t.handle);
    return out;
  };
  const auto tensors = [&](const std::vector<lamina_tensor_t>& list) {
    std::vector<Tensor> out;
    for (lamina_tensor_t handle : list) out.push_back({build, handle});
    return out;
  };
  std::vector<lamina_state_t> states;
  for (const Carry& carry : region.carries) {
    const std::vector<std::string_view> axes(carry.dims.size(), axis::none);
    states.push_back(s.state(LAMINA_STATE_CUSTOM, carry.name, carry.dims,
                             {.axes = axes, .flags = LAMINA_STATE_FLAG_NO_QUANTIZE}, at)
                         .handle);
  }
  const std::vector<lamina_tensor_t> inputs = handles(region.inputs);
  std::vector<lamina_tensor_t> carries(states.size()), tokens(inputs.size());
  lamina_time_region_t begin{};
  begin.size = sizeof begin;
  begin.states = to_span(states);
  begin.inputs = to_span(inputs);
  begin.carries = carries.data();
  begin.tokens = tokens.data();
  check(api.begin(build, &begin, &where));

  const TokenResults given = body(tensors(carries), tensors(tokens));
  const std::vector<lamina_tensor_t> after = handles(given.carries),
                                     results = handles(given.results);
  std::vector<lamina_tensor_t> outputs(results.size());
  lamina_time_results_t end{};
  end.size = sizeof end;
  end.carries = to_span(after);
  end.results = to_span(results);
  end.outputs = outputs.data();
  check(api.end(build, &end, &where));
  return tensors(outputs);
}

}  // namespace detail
}  // namespace lamina::sdk
#pragma GCC visibility pop
