#include "weights/publish/peft_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "publishers/formats.h"
#include "weights/match/tensor_map.h"

namespace lamina::weights {
namespace {

// Returns the folder of the layers in the family's map: "model." for "model.layers.{L}.mlp".
std::string folder_in_map(const registry::Family& family) {
  for (const registry::TensorRow& row : family.tensor_rows()) {
    const std::size_t number = row.published.find("{L}");
    if (row.ignore || number == row.published.npos || number == 0) continue;
    return row.published.substr(0, row.published.rfind('.', number - 2) + 1);
  }
  return {};
}

// Returns the same folder in the class with a head: names in files may omit the name of the module
// beside the head, modules do not.
std::string folder_in_class(const registry::Family& family, const std::string& in_map) {
  const std::vector<std::string>& prefixes = family.tensor_prefixes();
  const bool has_one = std::ranges::any_of(
      prefixes, [&](const std::string& prefix) { return in_map.starts_with(prefix); });
  return prefixes.empty() || has_one ? in_map : prefixes.front() + in_map;
}

// Splits "layers.3.mlp.experts.7.w1" into "layers.", 3 and "mlp.experts.7.w1".
struct Place {
  std::string stack, layer, rest;
};
Place place_of(std::string_view module) {
  const std::size_t number = module.find_first_of("0123456789"),
                    end = std::min(module.find('.', number), module.size());
  if (number == module.npos) return {"", "", std::string(module)};
  return {std::string(module.substr(0, number)), std::string(module.substr(number, end - number)),
          std::string(module.substr(std::min(end + 1, module.size())))};
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '.') out += '\\';
    out += c;
  }
  return out;
}

// Returns "mlp\.experts\.\d+\.w1" for "mlp.experts.7.w1".
std::string with_any_number(std::string_view rest) {
  std::string out;
  for (std::size_t at = 0; at <= rest.size();) {
    const std::size_t end = std::min(rest.find('.', at), rest.size());
    const std::string_view part = rest.substr(at, end - at);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    out += (out.empty() ? "" : "\\.") + (number ? "\\d+" : escaped(part));
    at = end + 1;
  }
  return out;
}

using Layers = std::set<std::string>;
// Returns the layers by the rest of a module's name after the layer number, with any number in it.
std::map<std::string, Layers> layers_of(const std::vector<std::string>& modules) {
  std::map<std::string, Layers> out;
  for (const std::string& module : modules) {
    const Place place = place_of(module);
    if (!place.layer.empty()) out[with_any_number(place.rest)].insert(place.layer);
  }
  return out;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// Returns name suffixes that match `modules` and none of `others`; empty if there are none.
std::vector<std::string> ends_of(const std::vector<std::string>& modules,
                                 const std::vector<std::string>& others) {
  const auto is_of_others = [&](const std::string& end) {
    return std::ranges::any_of(others,
                               [&](const std::string& module) { return is_called(module, end); });
  };
  std::set<std::string> out;
  for (const std::string& module : modules) {
    if (std::ranges::any_of(out, [&](const auto& end) { return is_called(module, end); })) continue;
    const std::string rest = place_of(module).rest;
    const bool has_number = with_any_number(rest) != escaped(rest);
    if (!is_of_others(last_part(module)))
      out.insert(last_part(module));
    else if (!has_number && !is_of_others(rest))
      out.insert(rest);
    else
      return {};
  }
  return {out.begin(), out.end()};
}

}  // namespace

std::string module_named_as_experts(const decoder::Model& model) {
  // PEFT decides by the class, whether or not the model has experts. The first row of a parameter
  // is its form in the class; a prediction layer may have another one.
  std::set<std::string> of_experts;
  std::set<std::pair<std::uint32_t, std::string>> known;
  for (const registry::TensorRow& row : model.family().tensor_rows())
    if (!row.ignore && known.emplace(row.block, row.param).second &&
        row.published.find("{E}") != row.published.npos)
      of_experts.insert(last_part(decoder::module_name(row.published)));
  for (const decoder::Parameter& p : model.parameters().all()) {
    if (!decoder::is_adapter(p.name) || p.desc.shape.ndim() == 3) continue;
    for (const registry::TensorRow& row : model.family().tensor_rows())
      if (row.block == p.block && row.param == decoder::adapted_name(p.desc.name) &&
          row.published.find("{L}.") != row.published.npos &&
          of_experts.contains(last_part(decoder::module_name(row.published))))
        return decoder::module_name(row.published.substr(row.published.find("{L}.") + 4));
  }
  return {};
}

std::optional<MissingModule> module_missing_in_base(const decoder::Model& model,
                                                    const PublishedForm* form) {
  const AdapterNames names(model, form);
  const TensorMap map = published_tensors(model);
  std::set<std::string> known;  // modules of the class, which does not depend on the files
  for (const PublishedTensor& tensor : map.tensors())
    known.insert(decoder::module_name(tensor.name));
  for (const PublishedTensor& tensor : map.tensors()) {
    if (tensor.pieces.size() < 2 || !tensor.name.ends_with(publishers::kAdapterUp)) continue;
    const std::string module = module_of_adapter_tensor(names.published(tensor.name));
    // Names in files may omit the name of the module beside the head.
    if (std::ranges::any_of(known, [&](const std::string& own) { return is_called(module, own); }))
      continue;
    std::map<std::int64_t, std::string> parts;  // by their place in it
    for (const int index : tensor.pieces) {
      const Piece& piece = map.pieces()[static_cast<std::size_t>(index)];
      const std::string matrix = decoder::adapted_name(model.parameters()[piece.parameter].name);
      const Piece& own = map.pieces_of(model.parameters().find(matrix)).front();
      parts[piece.view.offset] = last_part(decoder::module_name(map.tensor_of(own).name));
    }
    MissingModule out{.name = last_part(module), .parts = {}};
    for (auto& [offset, part] : parts) out.parts.push_back(std::move(part));
    return out;
  }
  return {};
}

std::string module_of_adapter_tensor(std::string_view name) {
  if (!name.starts_with(publishers::kAdapterPrefix)) return {};
  name.remove_prefix(publishers::kAdapterPrefix.size());
  for (const std::string_view part :
       {publishers::kAdapterDown, publishers::kAdapterUp, publishers::kAdapterMagnitude})
    if (name.ends_with(part)) return std::string(name.substr(0, name.size() - part.size()));
  return {};
}

AdapterNames::AdapterNames(const decoder::Model& model, const PublishedForm* form)
    : ours_(folder_in_map(model.family())),
      theirs_(folder_in_class(model.family(), ours_)),
      wrapped_(form && form->is_wrapped()) {
  if (!wrapped_) return;
  if (const auto folders = layer_folders(model, form->names())) theirs_ = folders->theirs;
}

std::string AdapterNames::published(std::string_view name) const {
  const std::string own = std::string(publishers::kAdapterPrefix) + ours_;
  if (!name.starts_with(own)) return std::string(name);
  return fmt::format("{}{}{}", publishers::kAdapterPrefix, theirs_, name.substr(own.size()));
}

void AdapterNames::name_targets(const decoder::Model& model, PeftConfig& config) const {
  std::set<std::string> adapted, all;  // modules of the family's map
  const TensorMap map = published_tensors(model);
  for (const PublishedTensor& tensor : map.tensors())
    if (const std::string module = module_of_adapter_tensor(tensor.name); !module.empty())
      adapted.insert(module);
    else
      all.insert(decoder::module_name(tensor.name));
  std::vector<std::string> modules(adapted.begin(), adapted.end()), others;
  std::ranges::set_difference(all, adapted, std::back_inserter(others));
  config.target_pattern.clear();
  config.target_modules = wrapped_ ? std::vector<std::string>{} : ends_of(modules, others);
  if (config.target_modules.empty()) config.target_pattern = pattern_of(modules, others);
}

PeftConfig AdapterNames::for_peft(const decoder::Model& model, const PeftConfig& config) const {
  PeftConfig out = config;
  name_targets(model, out);
  const bool has_experts = std::ranges::any_of(model.parameters().all(), [](const auto& p) {
    return decoder::is_adapter(p.name) && p.desc.shape.ndim() == 3;
  });
  if (!has_experts) return out;
  // With transformers 5, PEFT combines the adapters of gate and up into one of twice the rank,
  // whose square root would differ, and refuses dropout there.
  out.alpha = config.scale() * static_cast<double>(config.rank);
  out.rslora = false;
  out.dropout = 0;
  return out;
}

std::string AdapterNames::pattern_of(const std::vector<std::string>& modules,
                                     const std::vector<std::string>& others) const {
  const std::map<std::string, Layers> adapted = layers_of(modules), rest = layers_of(others);
  std::vector<std::string> everywhere, ends;
  for (const auto& [end, layers] : adapted)
    if (rest.contains(end))  // other layers have this module without an adapter
      ends.push_back(fmt::format("(?:{})\\.{}", fmt::join(layers, "|"), end));
    else
      everywhere.push_back(end);
  if (!everywhere.empty()) ends.push_back(fmt::format("\\d+\\.(?:{})", fmt::join(everywhere, "|")));
  std::vector<std::string> folders{theirs_};
  if (std::ranges::find(publishers::kLanguageModelFolders, theirs_) !=
      std::end(publishers::kLanguageModelFolders))
    folders.assign(std::begin(publishers::kLanguageModelFolders),
                   std::end(publishers::kLanguageModelFolders));
  for (std::string& folder : folders) folder = escaped(folder);
  const std::string stack = place_of(modules.front().substr(ours_.size())).stack;
  return fmt::format("(?:{}){}(?:{})", fmt::join(folders, "|"), escaped(stack),
                     fmt::join(ends, "|"));
}

}  // namespace lamina::weights
