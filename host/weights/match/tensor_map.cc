#include "weights/match/tensor_map.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/log.h"
#include "core/suggest.h"
#include "io/stored_weight.h"
#include "lamina/names.h"
#include "publishers/formats.h"
#include "weights/check/compression.h"
#include "weights/check/tensors.h"
#include "weights/match/map_builder.h"
#include "weights/match/pattern.h"

namespace lamina::weights {
namespace {

// Returns the folder of the layers: "language_model.model." for
// "language_model.model.layers.0.mlp.weight", which `row` names "model.layers.{L}.mlp.weight".
// Empty if `name` does not belong to a layer.
std::string folder_of_layers(std::string_view name, std::string_view row) {
  const std::size_t number = row.find("{L}");
  if (number == row.npos || number == 0) return {};
  const std::size_t begin = row.rfind('.', number - 2) + 1;  // start of "layers."
  const std::size_t at = name.find(row.substr(begin, number - begin));
  return at == name.npos ? std::string() : std::string(name.substr(0, at));
}

[[noreturn]] void refuse(const std::string& where, std::string what,
                         std::vector<std::string> notes) {
  throw UserError(ExitCode::checkpoint, {where, std::move(what), std::move(notes)});
}

// Returns whether the initial values are independent of the seed.
bool is_fixed(const registry::InitSpec& init) {
  using Kind = registry::InitSpec::Kind;
  return init.kind == Kind::zeros || init.kind == Kind::ones || init.kind == Kind::constant ||
         init.kind == Kind::cycle;
}

// Finds the tensors of all parameters among the existing names.
class NameMatcher {
 public:
  NameMatcher(const decoder::Model& model, std::string where,
              const std::vector<std::string_view>& names, const MayLack& may_lack, bool fills)
      : model_(model),
        where_(std::move(where)),
        names_(names),
        known_(names.begin(), names.end()),
        may_lack_(may_lack),
        fills_(fills),
        // Checkpoints of training have our names, even if tensors are missing.
        is_checkpoint_(std::filesystem::exists(where_ + "/model.toml")),
        builder_(model) {
    for (std::string_view stored : names)
      if (std::string bare = publishers::without_wrappers(stored); bare != stored)
        wrapped_.emplace(std::move(bare), stored);
  }

  // Borrows `files`.
  NameMatcher(const decoder::Model& model, const io::WeightFiles& files, const MayLack& may_lack)
      : NameMatcher(model, files.path(), files.names(), may_lack, false) {
    files_ = &files;
    if (files.gguf())
      add_stored_names(*files.gguf());
    else
      add_plain_blocks();
  }

  // Matches by the rows of the family, or by our names. Files have them if they have our names.
  TensorMap run() { return run(files_ && has_own_names()); }

  // The folder of the layers in these names, see folder_of_layers(); empty: none was found.
  const std::string& layers() const { return layers_; }

 private:
  // Rows may also use the stored name, and then take precedence: a family's row for GGUF files
  // describes the differences from the published form.
  void add_stored_names(const io::GgufModel& gguf) {
    for (const auto& part : gguf.parts())
      for (const io::GgufTensor& tensor : part->tensors()) stored_.insert(tensor.name);
    known_.insert(stored_.begin(), stored_.end());
  }

  // Adds names of plain values that are stored under the name of their blocks
  // (publishers/formats.h).
  void add_plain_blocks() {
    for (std::string_view name : names_)
      if (name.ends_with(publishers::kMxfp4Name.weight) && is_floating(files_->tensor(name).dtype))
        plain_blocks_.insert(name);
  }

  bool has_own_names() const {
    return is_checkpoint_ ||
           std::ranges::all_of(model_.parameters().all(), [&](const decoder::Parameter& p) {
             return known_.contains(p.name) || is_adapter(p);
           });
  }

  TensorMap run(bool own) {
    const auto& parameters = model_.parameters().all();
    std::vector<std::string> lacking;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const int index = static_cast<int>(i);
      if (!own) {
        find(index);
      } else if (known_.contains(parameters[i].name)) {
        builder_.add_own(index);
      } else if (is_adapter(parameters[i])) {
        find(index);  // in a separate file
      } else {
        check_absent(index, parameters[i].name);
        if (!may_lack(index, parameters[i].name)) lacking.push_back(parameters[i].name);
      }
    }
    if (!lacking.empty()) refuse_lacking(where_, lacking);
    TensorMap map = builder_.finish(own);
    if (!may_lack_) check_prediction_layers(map);
    return map;
  }

  // A whole prediction layer may be missing and is then initialised; a part of one may not.
  void check_prediction_layers(const TensorMap& map) const {
    std::map<std::int64_t, int> present, lacking;  // one parameter per layer
    const auto& parameters = model_.parameters().all();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].layer >= model_.config().num_layers()) {
        const int index = static_cast<int>(i);
        (map.pieces_of(index).empty() ? lacking : present).emplace(parameters[i].layer, index);
      }
    for (const auto& [layer, index] : lacking)
      if (present.contains(layer))
        missing(index,
                builder_.expand(index, *builder_.rows_of(index).front()).tensors.front().name);
  }

  bool is_adapter(const decoder::Parameter& p) const {
    return model_.adapter() && decoder::is_adapter(p.name);
  }

  // Returns the name of `name` in the files; empty if it is missing.
  std::string spelling(const std::string& name) const {
    for (std::string& s : spellings(name, model_.family().tensor_prefixes()))
      if (known_.contains(s)) return std::move(s);
    if (!wrapped_.empty())
      for (const std::string& s : spellings(name, model_.family().tensor_prefixes()))
        if (const auto found = wrapped_.find(s); found != wrapped_.end())
          return std::string(found->second);
    if (plain_blocks_.empty()) return {};
    for (std::string& s : spellings(name, model_.family().tensor_prefixes()))
      if (plain_blocks_.contains(s += publishers::kMxfp4Name.weight)) return std::move(s);
    return {};
  }

  void find(int parameter) {
    std::vector<const registry::TensorRow*> rows = builder_.rows_of(parameter);
    if (!stored_.empty())
      std::ranges::stable_partition(rows, [&](const registry::TensorRow* row) {
        const std::vector<ExpandedRow::Tensor> all = builder_.expand(parameter, *row).tensors;
        return !all.empty() && stored_.contains(all.front().name);
      });
    for (const registry::TensorRow* row : rows) {
      const ExpandedRow expanded = builder_.expand(parameter, *row);
      std::vector<std::string> names;
      for (const ExpandedRow::Tensor& tensor : expanded.tensors) {
        names.push_back(spelling(tensor.name));
        if (!names.back().empty()) continue;
        if (names.size() == 1) break;  // another row may match
        check_absent(parameter, tensor.name);
        if (fills_) return add_as_others(parameter);
        if (may_lack(parameter, tensor.name)) return;
        missing(parameter, tensor.name);
      }
      if (names.empty() || names.back().empty()) continue;
      if (has_better_form(parameter, rows, expanded, names.front())) continue;
      if (layers_.empty()) layers_ = folder_of_layers(names.front(), row->published);
      return builder_.add(parameter, expanded, names);
    }
    for (const registry::TensorRow* row : rows)
      for (const ExpandedRow::Tensor& tensor : builder_.expand(parameter, *row).tensors)
        check_absent(parameter, tensor.name);
    if (fills_ && !rows.empty()) return add_as_others(parameter);
    const std::string name = rows.empty()
                                 ? model_.parameters()[parameter].name
                                 : builder_.expand(parameter, *rows.front()).tensors.front().name;
    const bool optional = std::ranges::any_of(rows, &registry::TensorRow::optional);
    if (optional && (!may_lack_ || starts_alike(model_.parameters()[parameter]))) return;
    if (!may_lack(parameter, name)) missing(parameter, name);
  }

  // Returns whether a missing optional tensor starts with values that do not depend on the seed. A
  // missing prediction layer counts as a whole.
  bool starts_alike(const decoder::Parameter& p) const {
    return is_fixed(p.desc.init) && p.layer < model_.config().num_layers();
  }

  // Returns whether a later row of the same tensor has to be used. Among several rows with the same
  // tensor name, the first whose shape matches the files is used; of rows with equal shapes, eg: a
  // square matrix with and without kTranspose, the last.
  bool has_better_form(int parameter, const std::vector<const registry::TensorRow*>& rows,
                       const ExpandedRow& expanded, const std::string& name) const {
    const Shape& shape = expanded.tensors.front().shape;
    return std::any_of(std::ranges::find(rows, expanded.row) + 1, rows.end(),
                       [&](const registry::TensorRow* later) {
                         return later->published == expanded.row->published &&
                                ((files_ && io::StoredWeight(*files_, name).shape() != shape) ||
                                 builder_.expand(parameter, *later).tensors.front().shape == shape);
                       });
  }

  // Adds the parameter under the names that the files would use for it.
  void add_as_others(int parameter) {
    const ExpandedRow expanded = builder_.expand(parameter, *builder_.rows_of(parameter).front());
    std::vector<std::string> names;
    for (const ExpandedRow::Tensor& tensor : expanded.tensors)
      names.push_back(likely_spelling(tensor.name));
    builder_.add(parameter, expanded, names);
  }

  bool may_lack(int parameter, const std::string& name) const {
    return may_lack_ && may_lack_(model_.parameters()[parameter].name, likely_spelling(name));
  }

  // Returns what the index says about a tensor that its shard lacks, in any spelling; "" for other
  // tensors.
  std::string shard_note(const std::string& name) const {
    if (!files_ || files_->names_without_shard().empty()) return "";
    for (const std::string& s : spellings(name, model_.family().tensor_prefixes()))
      if (std::string note = files_->shard_note(s); !note.empty()) return note;
    return "";
  }

  // Throws for such a tensor. REQUIRES: spelling() found none for it.
  void check_absent(int parameter, const std::string& name) const {
    if (!shard_note(name).empty()) missing(parameter, name);
  }

  [[noreturn]] void missing(int parameter, const std::string& name) const {
    const std::string wanted = likely_spelling(name);
    std::vector<std::string> notes{
        fmt::format("for parameter '{}'", model_.parameters()[parameter].name)};
    if (folders() && known_.contains(wanted))
      refuse(where_,
             fmt::format("tensors are under '{}', which family '{}' does not read",
                         folders()->theirs, model_.family().name()),
             {fmt::format("expected names such as '{}'", name),
              "authors of plugins: add the prefix to hf_prefixes"});
    if (std::string note = shard_note(name); !note.empty()) notes.push_back(std::move(note));
    add_similar(wanted, notes);
    refuse(where_, fmt::format("tensor '{}' is missing", wanted), notes);
  }

  // Adds the existing tensor that a missing one may be a part of.
  void add_similar(const std::string& wanted, std::vector<std::string>& notes) const {
    std::vector<std::string> unused = names_without_use();
    // Tensors of GGUF files that have no published form keep their names.
    const auto unread = std::ranges::find_if(
        unused, [this](const std::string& name) { return stored_.contains(name); });
    if (unread != unused.end()) {
      notes.push_back(fmt::format("the file has '{}', which family '{}' does not read", *unread,
                                  model_.family().name()));
      notes.push_back(
          "convert the model again without options that fuse tensors, such as --fuse-qkv, or use "
          "its safetensors files");
      return;
    }
    if (unused.empty()) unused.assign(names_.begin(), names_.end());
    if (const std::string nearest = nearest_name(wanted, unused); !nearest.empty())
      notes.push_back(fmt::format("the nearest existing name is '{}'", nearest));
  }

  // Returns the probable name of a missing tensor in the files, including the folder of the layers.
  std::string likely_spelling(const std::string& name) const {
    if (name.starts_with(publishers::kAdapterPrefix))
      return std::string(publishers::kAdapterPrefix) +
             likely_spelling(name.substr(publishers::kAdapterPrefix.size()));
    return folders() ? name_in(*folders(), name) : name;
  }

  // Finding them takes as many comparisons as there are rows and names.
  const std::optional<LayerFolders>& folders() const {
    if (!folders_) folders_ = layer_folders(model_, names_);
    return *folders_;
  }

  // Returns the names that no parameter uses under its first name.
  std::vector<std::string> names_without_use() const {
    std::unordered_set<std::string> expected;
    for (std::size_t i = 0; i < model_.parameters().all().size(); ++i)
      for (const registry::TensorRow* row : builder_.rows_of(static_cast<int>(i)))
        for (const ExpandedRow::Tensor& tensor : builder_.expand(static_cast<int>(i), *row).tensors)
          expected.insert(spelling(tensor.name));
    std::vector<std::string> out;
    for (std::string_view name : names_)
      if (!expected.contains(std::string(name))) out.emplace_back(name);
    return out;
  }

  const decoder::Model& model_;
  std::string where_;
  const std::vector<std::string_view>& names_;
  std::unordered_set<std::string_view> known_, stored_,
      plain_blocks_;                                           // stored: names in GGUF files
  std::unordered_map<std::string, std::string_view> wrapped_;  // stored name by bare name
  MayLack may_lack_;
  const io::WeightFiles* files_ = nullptr;  // null: names alone
  bool fills_;                              // missing tensors get names like the others
  bool is_checkpoint_;
  MapBuilder builder_;
  std::string layers_;
  mutable std::optional<std::optional<LayerFolders>> folders_;  // once they are wanted
};

}  // namespace

bool StridedView::is_contiguous() const {
  std::int64_t stride = 1;
  for (int i = shape.ndim(); i-- > 0;) {
    if (shape[i] != 1 && strides[static_cast<std::size_t>(i)] != stride) return false;
    stride *= shape[i];
  }
  return true;
}

std::span<const Piece> TensorMap::pieces_of(int parameter) const {
  const std::size_t p = static_cast<std::size_t>(parameter);
  return std::span(pieces_).subspan(begins_[p], begins_[p + 1] - begins_[p]);
}

std::vector<std::string> spellings(const std::string& name,
                                   const std::vector<std::string>& prefixes) {
  if (const std::string_view outer = publishers::kAdapterPrefix; name.starts_with(outer)) {
    std::vector<std::string> out = spellings(name.substr(outer.size()), prefixes);
    for (std::string& s : out) s.insert(0, outer);
    return out;
  }
  std::vector<std::string> bare{name};
  for (const std::string& prefix : prefixes)
    if (name.starts_with(prefix)) bare.push_back(name.substr(prefix.size()));
  std::vector<std::string> out = bare;
  for (const std::string& prefix : prefixes)
    for (const std::string& b : bare) out.push_back(prefix + b);
  return out;
}

std::optional<LayerFolders> layer_folders(const decoder::Model& model,
                                          std::span<const std::string_view> names) {
  for (const registry::TensorRow& row : model.family().tensor_rows()) {
    const std::size_t number = row.published.find("{L}");
    if (row.ignore || number == row.published.npos || number == 0) continue;
    const std::size_t own = row.published.rfind('.', number - 2) + 1;  // start of "layers."
    for (std::string_view name : names) {
      const std::string theirs = folder_of_layers(name, row.published);
      std::int64_t layer = 0;
      if (fits(theirs + row.published.substr(own), name, layer))
        return LayerFolders{row.published.substr(0, own), theirs};
    }
  }
  return std::nullopt;
}

std::string name_in(const LayerFolders& folders, const std::string& name) {
  const auto& [ours, theirs] = folders;
  if (name.starts_with(ours)) return theirs + name.substr(ours.size());
  // "language_model." of "language_model.model.layers.0" is also the prefix of the head.
  const std::string outer =
      theirs.ends_with(ours) ? theirs.substr(0, theirs.size() - ours.size()) : "";
  return outer.ends_with('.') ? outer + name : name;
}

void refuse_lacking(const std::string& directory, std::span<const std::string> names) {
  constexpr std::size_t kShown = 4;
  std::string list =
      fmt::format("'{}'", fmt::join(names.first(std::min(kShown, names.size())), "', '"));
  if (names.size() > kShown) list += ", ...";
  refuse(directory,
         fmt::format("lacks {} tensor{} of the model: {}", names.size(),
                     names.size() == 1 ? "" : "s", list),
         {"the plugin or [model] has other parameters than those that trained these: use the same "
          "ones, or start a new run with train.from and train.fresh"});
}

TensorMap match_weights(const decoder::Model& model, const io::WeightFiles& files,
                        const MayLack& may_lack) {
  NameMatcher names(model, files, may_lack);
  TensorMap map = names.run();
  check_tensors(model, files, names.layers(), map);
  check_compression(files, map);
  return map;
}

bool lacks_predictions(const decoder::Model& model, const io::WeightFiles& files) {
  if (model.mtp_depth() == 0) return false;
  const TensorMap map = NameMatcher(model, files, [](auto&, auto&) { return true; }).run();
  const auto& parameters = model.parameters().all();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].layer >= model.config().num_layers() &&
        !map.pieces_of(static_cast<int>(i)).empty())
      return false;
  return true;
}

TensorMap match_names(const decoder::Model& model, const std::string& where,
                      const std::vector<std::string_view>& names) {
  return NameMatcher(model, where, names, {}, true).run();
}

namespace {

[[noreturn]] void refuse_without_row(const decoder::Model& model, int index) {
  const registry::Family& family = model.family();
  const decoder::Parameter& parameter = model.parameters()[index];
  // Most names end alike, which makes them no more similar.
  const auto without_end = [](std::string_view name) {
    return std::string(name.ends_with(".weight") ? name.substr(0, name.rfind('.')) : name);
  };
  std::map<std::string, std::string> unused;  // by the part that is compared
  for (const registry::TensorRow& row : family.tensor_rows())
    if (!row.ignore && row.block == parameter.block &&
        std::ranges::none_of(model.parameters().all(), [&](const decoder::Parameter& p) {
          return p.block == row.block && p.desc.name == row.param;
        }))
      unused.emplace(without_end(row.param), row.param);
  std::vector<std::string> compared, notes;
  for (const auto& [name, whole] : unused) compared.push_back(name);
  if (const std::string nearest = nearest_name(without_end(parameter.desc.name), compared);
      !nearest.empty())
    notes.push_back(
        fmt::format("it has a row for '{}', which this model does not have", unused.at(nearest)));
  const registry::PluginIdentity& plugin = family.plugin();
  notes.push_back(fmt::format("plugin '{}' {}", plugin.id, plugin.version));
  notes.push_back(
      "a tensor map must have a row for each parameter, or be empty: then our names are the "
      "published names (M-9 of docs/plugin_requirements.md)");
  throw PluginError({fmt::format("family '{}'", family.name()),
                     fmt::format("the tensor map lacks a row for '{}', the parameter '{}'",
                                 parameter.desc.name, parameter.name),
                     std::move(notes)});
}

}  // namespace

TensorMap published_tensors(const decoder::Model& model, Layout layout,
                            const std::optional<LayerFolders>& folders) {
  MapBuilder builder(model);
  const int count = static_cast<int>(model.parameters().all().size());
  for (int i = 0; i < count; ++i) {
    if (builder.rows_of(i).empty()) refuse_without_row(model, i);
    const registry::TensorRow* fused = layout == Layout::fused ? builder.fused_row_of(i) : nullptr;
    const ExpandedRow expanded = builder.expand(i, fused ? *fused : *builder.rows_of(i).front());
    std::vector<std::string> names;
    for (const ExpandedRow::Tensor& tensor : expanded.tensors)
      names.push_back(folders ? name_in(*folders, tensor.name) : tensor.name);
    builder.add(i, expanded, names);
  }
  return builder.finish(false);
}

}  // namespace lamina::weights
