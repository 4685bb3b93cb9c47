#include "decoder/trace/region_types.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/error.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

[[noreturn]] void refuse_region(std::string what) {
  throw PluginError({"a region over time", std::move(what), {}});
}

}  // namespace

std::vector<Type> token_types(std::span<const ops::StateDesc> states,
                              std::span<const Tensor> inputs, DType wide, std::int64_t batch,
                              std::int64_t tokens) {
  if (inputs.empty()) refuse_region("has no inputs; it has at least one, which is of tokens");
  std::vector<Type> out;
  for (const ops::StateDesc& state : states) {
    std::vector<std::int64_t> dims{batch};
    dims.insert(dims.end(), state.dims.begin(), state.dims.end());
    out.push_back({state.dtype.value_or(wide), Shape(std::span<const std::int64_t>(dims)), {}});
  }
  for (const Tensor& input : inputs) {
    if (input.ndim() < 2 || input.dim(0) != batch || input.dim(1) != tokens)
      refuse_region(fmt::format("has the input {}; its inputs are of tokens, [{}, {}, ...]",
                                to_string(input.type()), batch, tokens));
    std::vector<std::int64_t> dims = ops::to_list(input.shape());
    dims.erase(dims.begin() + 1);
    out.push_back({input.dtype(), Shape(std::span<const std::int64_t>(dims)), {}});
  }
  return out;
}

void check_region(std::span<const ops::StateDesc> states, std::span<const Type> before,
                  std::span<const Tensor> carries, std::span<const Tensor> results,
                  std::int64_t batch) {
  if (carries.size() != states.size())
    refuse_region(fmt::format("gives {} carries; it has {} states", carries.size(), states.size()));
  for (std::size_t i = 0; i < carries.size(); ++i)
    if (carries[i].type() != before[i])
      refuse_region(
          fmt::format("has the carry '{}' as {} before a token and as {} after it; a carry keeps "
                      "its type",
                      states[i].name, to_string(before[i]), to_string(carries[i].type())));
  for (const Tensor& result : results)
    if (result.ndim() < 1 || result.dim(0) != batch)
      refuse_region(fmt::format("gives the result {}; results of a token are [{}, ...]",
                                to_string(result.type()), batch));
}

}  // namespace lamina::decoder
