#include "weights/publish/published_form.h"

#include <algorithm>
#include <filesystem>

#include "core/json_writer.h"
#include "io/stored_weight.h"
#include "publishers/formats.h"
#include "publishers/python_json.h"

namespace lamina::weights {
namespace {

namespace fs = std::filesystem;
using Edits =
    std::map<std::string, std::string, std::less<>>;  // JSON by path: "rope_scaling.factor"

// Returns the edits below `key`, relative to it.
Edits below(const Edits& edits, std::string_view key) {
  const std::string prefix = std::string(key) + ".";
  Edits out;
  for (const auto& [path, json] : edits)
    if (path.starts_with(prefix)) out[path.substr(prefix.size())] = json;
  return out;
}

// Writes `object` (null: an empty one) with these values replaced; without keep_all, also without
// the keys of compression, at the top and in text_config.
void write_edited(JsonWriter& out, const JsonValue* object, const Edits& edits, bool keep_all) {
  out.begin_object();
  std::map<std::string, bool, std::less<>> there;
  if (object)
    for (const auto& [key, value] : object->members()) {
      if (!keep_all && publishers::is_compression_key(key)) continue;
      there[std::string(key)] = true;
      out.key(key);
      const bool keep_inner = keep_all || !publishers::is_text_config(key);
      if (const auto edit = edits.find(key); edit != edits.end())
        out.raw(edit->second);
      else if (const Edits inner = below(edits, key);
               value.is_object() && (!keep_inner || !inner.empty()))
        write_edited(out, &value, inner, keep_inner);
      else
        out.value(value);
    }
  for (const auto& [path, json] : edits) {
    const std::string key = path.substr(0, path.find('.'));
    if (!there.try_emplace(key, true).second) continue;
    out.key(key);
    if (key == path)
      out.raw(json);
    else
      write_edited(out, nullptr, below(edits, key), true);
  }
  out.end_object();
}

bool has_path(JsonValue at, std::string_view path) {
  while (at && at.is_object()) {
    const std::size_t dot = path.find('.');
    at = at.find(path.substr(0, dot));
    if (dot == path.npos) return static_cast<bool>(at);
    path.remove_prefix(dot + 1);
  }
  return false;
}

// Returns the path of the key: an existing one in `config` if possible, because it would take
// precedence.
std::string path_in(const JsonValue& config, const std::string& folder,
                    const registry::ModelKey& key) {
  std::vector<std::string> paths = key.key.aliases;
  paths.insert(paths.begin(), key.hf_name);
  paths.push_back(key.key.name);
  for (const std::string& path : paths)
    if (has_path(config, folder + path)) return path;
  // Members of a list of objects are not edited: the name has precedence.
  return key.hf_name.find("[].") == std::string::npos ? key.hf_name : key.key.name;
}

// Returns the values of `model` that differ from `source`, by their paths in config.json.
Edits changed_values(const decoder::Model& model, const decoder::Model& source,
                     const JsonValue& config) {
  Edits out;
  const std::string folder =
      source.config().in_wrapper() && config.find("text_config") ? "text_config." : "";
  for (const registry::ModelKey& key : model.config().keys()) {
    const config::Entry* now = model.config().values().find(key.key.name);
    const config::Entry* before = source.config().values().find(key.key.name);
    if (key.ignored || !now || (before && before->value == now->value)) continue;
    out[folder + path_in(config, folder, key)] = config::to_json(now->value);
  }
  return out;
}

// Returns the name without the suffix for blocks, if the family knows that name.
std::string_view without_blocks(const decoder::Model& model, std::string_view tensor) {
  constexpr std::string_view kBlocks = publishers::kMxfp4Name.weight;
  if (!tensor.ends_with(kBlocks)) return tensor;
  const auto last = [](std::string_view name) { return name.substr(name.rfind('.') + 1); };
  const std::string_view values = tensor.substr(0, tensor.size() - kBlocks.size());
  const bool known =
      std::ranges::any_of(model.family().tensor_rows(), [&](const registry::TensorRow& row) {
        return !row.ignore && last(row.published) == last(values);
      });
  return known ? values : tensor;
}

void write_tensors(JsonWriter& json, const decoder::Model& model, const io::WeightFiles& files,
                   const TensorMap& map) {
  json.key("tensors").begin_object();
  for (const PublishedTensor& tensor : map.tensors()) {
    if (tensor.name.starts_with(publishers::kAdapterPrefix)) continue;
    json.key(name_of_values(model, tensor.name)).begin_object();
    json.key("dtype").value(name(published_dtype(files, tensor.name)));
    json.key("file").value(fs::path(files.path_of(tensor.name)).filename().string());
    json.end_object();
  }
  json.end_object();
}

}  // namespace

PublishedForm::PublishedForm(const std::string& path)
    : PublishedForm(JsonDocument::read(path, publishers::kPythonJson)) {}

PublishedForm PublishedForm::of_text(std::string text) {
  return PublishedForm(JsonDocument::parse(std::move(text), std::string(kPublishedFormFile),
                                           publishers::kPythonJson));
}

PublishedForm::PublishedForm(JsonDocument document) : document_(std::move(document)) {
  for (const auto& [tensor, form] : document_.root().at("tensors").members()) {
    const auto dtype = parse_dtype(form.at("dtype").as_string());
    if (!dtype) form.at("dtype").fail("must be an element type, got " + form.describe());
    const JsonValue file = form.at("file");
    if (!io::is_plain_name(file.as_string()) || !file.as_string().ends_with(".safetensors"))
      file.fail("must be the name of a .safetensors file without a path, got " + file.describe());
    names_.push_back(tensor);
    dtypes_.emplace(tensor, *dtype);
    file_of_.emplace(tensor, file.as_string());
  }
  if (names_.empty()) document_.root().at("tensors").fail("must name a tensor");
}

std::optional<PublishedForm> PublishedForm::beside(const std::string& checkpoint) {
  const std::string path = (fs::path(checkpoint) / kPublishedFormFile).string();
  if (!fs::exists(path)) return std::nullopt;
  return PublishedForm(path);
}

std::optional<DType> PublishedForm::dtype(std::string_view tensor) const {
  const auto found = dtypes_.find(tensor);
  return found == dtypes_.end() ? std::nullopt : std::optional(found->second);
}

bool PublishedForm::is_wrapped() const {
  const auto holds = [](const JsonValue& object) {
    return object && object.is_object() && object.find("text_config");
  };
  return holds(config()) ||
         std::ranges::any_of(publishers::kTextConfigHolders,
                             [&](std::string_view holder) { return holds(config().find(holder)); });
}

DType PublishedForm::main_dtype() const {
  std::map<DType, int> counts;
  for (const auto& [tensor, dtype] : dtypes_) ++counts[dtype];
  return std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->first;
}

std::string name_of_values(const decoder::Model& model, std::string_view tensor) {
  return publishers::without_wrappers(without_blocks(model, tensor));
}

DType published_dtype(const io::WeightFiles& files, std::string_view tensor) {
  const io::StoredWeight stored(files, tensor);
  return stored.is_uncompressed() ? stored.data().dtype : DType::bf16;
}

std::string published_form(const decoder::Model& model, const decoder::Model& source,
                           const io::WeightFiles& files, const TensorMap& map) {
  const fs::path directory = files.path();
  const auto write = [&](const JsonValue& config, bool keep_all, auto tensors) {
    JsonWriter json(1);
    json.begin_object().key("config");
    write_edited(json, &config, changed_values(model, source, config), keep_all);
    tensors(json);
    return json.end_object().text() + "\n";
  };
  if (const auto form = PublishedForm::beside(directory.string()))
    return write(form->config(), true, [&](JsonWriter& json) {
      json.key("tensors").begin_object();
      for (std::string_view tensor : form->names()) {
        json.key(tensor).begin_object().key("dtype").value(name(*form->dtype(tensor)));
        json.key("file").value(form->file_of().find(tensor)->second).end_object();
      }
      json.end_object();
    });
  if (files.gguf() || !fs::exists(directory / "config.json")) return "";
  const JsonDocument config =
      JsonDocument::read((directory / "config.json").string(), publishers::kPythonJson);
  const bool plain = std::ranges::all_of(map.tensors(), [&](const PublishedTensor& tensor) {
    return io::StoredWeight(files, tensor.name).is_uncompressed();
  });
  return write(config.root(), plain,
               [&](JsonWriter& json) { write_tensors(json, source, files, map); });
}

}  // namespace lamina::weights
