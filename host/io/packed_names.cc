// Finds the tensors of packed weights by their names.
#include <algorithm>
#include <optional>

#include "core/error.h"
#include "io/packed_weight.h"
#include "io/weight_files.h"
#include "publishers/formats.h"

namespace lamina::io {
namespace {

using Order = PackedTensors::Order;
using publishers::PackedNames;

[[noreturn]] void fail(const WeightFiles& files, std::string_view tensor, std::string what,
                       std::string note) {
  throw UserError(ExitCode::checkpoint,
                  {files.path_of(tensor), std::move(what), {std::move(note)}});
}

// The names of a packed weight's tensors if `tensor` has its values.
struct Found {
  const PackedNames* names;
  std::string_view method;  // must be one of quantization_config
};

std::optional<Found> values_of(const WeightFiles& files, std::string_view tensor) {
  const std::string& method = files.compression().method;
  if (tensor.ends_with(publishers::kCompressedTensorsNames.values))
    return Found{&publishers::kCompressedTensorsNames, publishers::kCompressedTensors};
  if (tensor.ends_with(publishers::kGptqNames.values))
    return Found{&publishers::kGptqNames, method == "awq" ? "awq" : "gptq"};
  if (method == publishers::kCompressedTensors &&
      tensor.ends_with(publishers::kCompressedBytesNames.values) &&
      files.tensor(tensor).dtype == DType::i8)
    return Found{&publishers::kCompressedBytesNames, method};
  return {};
}

Order order_of(const WeightFiles& files, const Found& found, const PackedTensors& tensors) {
  if (found.names == &publishers::kCompressedBytesNames) return Order::bytes;
  if (found.names == &publishers::kGptqNames)
    return found.method == "awq" ? Order::awq : Order::gptq;
  return files.tensor(tensors.values).dtype == DType::u8 ? Order::pairs : Order::words;
}

}  // namespace

std::vector<std::string_view> PackedTensors::names() const {
  std::vector<std::string_view> out{values};
  for (const std::string* part : {&scales, &zero_points, &group_index, &shape, &global_scale})
    if (!part->empty()) out.push_back(*part);
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

std::map<std::string, PackedTensors, std::less<>> find_packed(const WeightFiles& files) {
  std::map<std::string, PackedTensors, std::less<>> out;
  for (std::string_view tensor : files.names()) {
    const std::optional<Found> found = values_of(files, tensor);
    if (!found) continue;
    if (files.compression().method != found->method)
      fail(files, tensor,
           fmt::format("tensor '{}' is packed, but quantization_config of config.json {}", tensor,
                       files.compression().method.empty()
                           ? "is missing"
                           : fmt::format("has the method \"{}\"", files.compression().method)),
           fmt::format("expected quant_method \"{}\"{}: use the config.json that belongs to these "
                       "weights",
                       found->method, found->method == "gptq" ? " or \"awq\"" : ""));
    const std::string module(tensor.substr(0, tensor.size() - found->names->values.size()));
    const auto part = [&](std::string_view suffix) {
      std::string name = module + std::string(suffix);
      return !suffix.empty() && files.contains(name) ? name : std::string();
    };
    PackedTensors tensors{.order = {},
                          .values = std::string(tensor),
                          .scales = part(found->names->scales),
                          .zero_points = part(found->names->zero_points),
                          .group_index = part(found->names->group_index),
                          .shape = part(found->names->shape),
                          .global_scale = part(found->names->global_scale),
                          .others = {}};
    tensors.order = order_of(files, *found, tensors);
    for (std::string_view suffix : publishers::kActivationSuffixes)
      if (std::string other = part(suffix); !other.empty())
        tensors.others.push_back(std::move(other));
    std::string weight = module + ".weight";
    // An index may list the weight of the model before it was packed.
    if (weight != tensor && files.shard_without(weight).empty() && files.contains(weight))
      fail(files, tensor,
           fmt::format("tensors '{}' and '{}' are the same weight, packed and plain", tensor,
                       weight),
           "remove one of them");
    out.emplace(std::move(weight), std::move(tensors));
  }
  return out;
}

}  // namespace lamina::io
