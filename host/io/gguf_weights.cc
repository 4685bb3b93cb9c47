#include "io/gguf_weights.h"

#include <algorithm>
#include <span>
#include <unordered_set>

#include "core/error.h"
#include "core/printable.h"
#include "io/gguf_names.h"

namespace lamina::io {
namespace {

constexpr std::string_view kBlock = "blk.", kExpert = "{E}";
// Far above the number in any model.
constexpr std::size_t kMaxWeights = std::size_t{1} << 20;

struct LayerName {
  std::string_view prefix;  // "blk.7."
  std::string_view number, rest;
};

// `rest` is empty for tensors outside layers.
LayerName layer_name(std::string_view name) {
  if (!name.starts_with(kBlock)) return {};
  const std::size_t dot = name.find('.', kBlock.size());
  if (dot == name.npos || dot == kBlock.size()) return {};
  const std::string_view number = name.substr(kBlock.size(), dot - kBlock.size());
  if (number.find_first_not_of("0123456789") != number.npos) return {};
  return {name.substr(0, dot + 1), number, name.substr(dot + 1)};
}

// Splits "attn_q.weight" into "attn_q" and ".weight".
std::pair<std::string_view, std::string_view> without_kind(std::string_view name) {
  for (std::string_view kind : {".weight", ".bias"})
    if (name.ends_with(kind)) return {name.substr(0, name.size() - kind.size()), kind};
  return {name, ""};
}

std::string published_name(const GgufModel& model, std::string_view name) {
  const LayerName layer = layer_name(name);
  const auto [own, kind] = without_kind(layer.rest.empty() ? name : layer.rest);
  const auto rows = layer.rest.empty() ? std::span<const TensorName>(kOuterTensorNames)
                                       : std::span<const TensorName>(kLayerTensorNames);
  for (const TensorName& row : rows) {
    if (row.gguf != own) continue;
    const bool applies = row.beside.empty() ||
                         model.find_tensor(fmt::format("{}{}.weight", layer.prefix, row.beside));
    if (!applies) continue;
    if (layer.rest.empty()) return fmt::format("{}{}", row.published, kind);
    return fmt::format("model.layers.{}.{}{}", layer.number, row.published, kind);
  }
  return std::string(name);
}

GgufTensor element_of(const GgufTensor& stack, std::int64_t i) {
  GgufTensor out = stack;
  const auto size = stack.bytes.size() / static_cast<std::size_t>(stack.shape[0]);
  out.shape = stack.shape.without_leading();
  out.bytes = stack.bytes.subspan(static_cast<std::size_t>(i) * size, size);
  return out;
}

}  // namespace

std::vector<GgufWeight> gguf_weights(const GgufModel& model) {
  std::vector<GgufWeight> out;
  std::unordered_set<std::string> names;
  const auto add = [&](std::string name, const GgufTensor& tensor, const GgufTensor& stored,
                       const GgufFile& file) {
    if (!names.insert(name).second || out.size() == kMaxWeights)
      user_error(ExitCode::checkpoint, file.path(),
                 "has more than one tensor, or too many tensors, for '{}'", printable(name));
    out.push_back({std::move(name), tensor, stored.name, &file});
    out.back().tensor.name = {};
  };
  const auto add_all = [&](const GgufTensor& tensor, const GgufFile& file) {
    std::string name = published_name(model, tensor.name);
    const std::size_t at = name.find(kExpert);
    if (at == name.npos) return add(std::move(name), tensor, tensor, file);
    if (tensor.shape.ndim() < 2)
      user_error(ExitCode::checkpoint, file.path(),
                 "tensor '{}' is {}; expected at least 2 dims for a stack of experts",
                 printable(tensor.name), to_string(tensor.shape));
    if (tensor.bytes.empty())  // a small file could claim millions of these
      user_error(ExitCode::checkpoint, file.path(),
                 "tensor '{}' is {}; expected values for each expert", printable(tensor.name),
                 to_string(tensor.shape));
    for (std::int64_t e = 0; e < tensor.shape[0]; ++e)
      add(std::string(name).replace(at, kExpert.size(), std::to_string(e)), element_of(tensor, e),
          tensor, file);
  };
  for (const auto& file : model.parts())
    for (const GgufTensor& tensor : file->tensors())
      if (std::ranges::find(kRopeFactorsTensors, tensor.name) == std::end(kRopeFactorsTensors))
        add_all(tensor, *file);
  for (GgufWeight& weight : out) weight.tensor.name = weight.name;  // its address is final now
  return out;
}

}  // namespace lamina::io
