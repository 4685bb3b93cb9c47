#include "io/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "formats/lookup.h"
#include "io/foreign_file.h"
#include "io/gguf_names.h"
#include "io/gguf_weights.h"
#include "publishers/formats.h"
#include "publishers/python_json.h"

namespace lamina::io {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const std::string& where, std::string what, std::string note) {
  throw UserError(ExitCode::checkpoint, {where, std::move(what), {std::move(note)}});
}

// A tensor in blocks is viewed as rows of bytes.
TensorView view(const GgufTensor& tensor) {
  if (!tensor.format) return {tensor.name, tensor.dtype, tensor.shape, tensor.bytes};
  Shape shape = tensor.shape;
  shape[-1] = shape[-1] / tensor.format->num_values * tensor.format->num_bytes;
  return {tensor.name, DType::u8, shape, tensor.bytes};
}

// Returns the format of a tensor whose blocks a checkpoint contains; null for other tensors.
const formats::BlockFormat* block_format_in(const SafetensorsFile& file, std::string_view tensor) {
  if (file.metadata().empty()) return nullptr;
  const auto entry = file.metadata().find(blocks_key(tensor));
  if (entry == file.metadata().end()) return nullptr;
  const formats::BlockFormat* format = formats::block_format_named(entry->second);
  const std::string path = file.path();
  if (!format)
    fail(path,
         fmt::format("tensor '{}' is in blocks of the format '{}', which is unknown",
                     printable(tensor), printable(entry->second)),
         "use the version of lamina that wrote the file, or a newer one");
  const TensorView view = file.tensor(tensor);
  if (view.dtype != DType::u8 || view.shape.ndim() < 1 || view.shape[-1] % format->num_bytes != 0)
    fail(path,
         fmt::format("tensor '{}' is {}{}; blocks of {} must be u8 rows of a multiple of {} bytes",
                     printable(tensor), name(view.dtype), to_string(view.shape), format->name,
                     format->num_bytes),
         "the file is damaged: use another checkpoint");
  return format;
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\\') == name.npos && name.find('\0') == name.npos;
}

std::string blocks_key(std::string_view tensor) { return fmt::format("blocks of {}", tensor); }

bool has_weight_set(const std::string& directory, std::string_view stem) {
  const std::string single = (fs::path(directory) / fmt::format("{}.safetensors", stem)).string();
  std::error_code ec;
  return fs::exists(single, ec) || fs::exists(single + ".index.json", ec);
}

WeightFiles::WeightFiles(const std::string& path, std::string_view stem) : path_(path) {
  std::error_code ec;
  if (const std::string gguf = gguf_in(path); !gguf.empty()) {
    add_gguf(gguf);
    return;
  }
  const fs::file_status status = fs::status(path, ec);
  if (!fs::exists(status))
    fail(path, "does not exist; expected a model directory or a safetensors file",
         "check the path");
  if (!fs::is_directory(status)) {
    if (path.ends_with(".json"))
      add_index(path);
    else
      add_file(path);
  } else {
    const std::string single = (fs::path(path) / fmt::format("{}.safetensors", stem)).string();
    const std::string index = single + ".index.json";
    if (fs::exists(single, ec))
      add_file(single);
    else if (fs::exists(index, ec))
      add_index(index);
    else
      fail(path, fmt::format("has neither {0}.safetensors nor {0}.safetensors.index.json", stem),
           contents_in_words(path));
  }
  compression_ =
      read_compression(fs::is_directory(status) ? path : fs::path(path).parent_path().string());
  name_packed();
}

void WeightFiles::name_packed() {
  packed_ = find_packed(*this);
  std::set<std::string_view> parts;
  std::map<std::string_view, std::string_view> weights;  // by the name of the stored numbers
  for (const auto& [weight, tensors] : packed_) {
    for (std::string_view part : tensors.names()) parts.insert(part);
    weights.emplace(tensors.values, weight);
    by_name_.emplace(weight, by_name_.at(tensors.values));
  }
  const bool has_activation_scales =
      compression_.method == publishers::kCompressedTensors || compression_.method == "fp8";
  std::vector<std::string_view> names;
  for (std::string_view name : names_) {
    if (const auto found = weights.find(name); found != weights.end()) {
      names.push_back(found->second);
    } else if (!parts.contains(name)) {
      const bool of_activations = has_activation_scales && publishers::is_activation_scale(name);
      (of_activations ? activation_scales_ : names).push_back(name);
    }
  }
  names_ = std::move(names);
}

std::vector<std::string_view> WeightFiles::all_names() const {
  std::vector<std::string_view> out = names_;
  out.insert(out.end(), activation_scales_.begin(), activation_scales_.end());
  return out;
}

void WeightFiles::add(const std::string& path) { add_file(path); }

void WeightFiles::replace(const std::string& directory, std::string_view stem) {
  const WeightFiles others(directory, stem);
  for (std::string_view name : others.names_without_shard())
    if (by_name_.count(name) > 0) others.check_absent(name);
  for (const SafetensorsFile& file : others.files())
    add_file(file.path(), true,
             [&](std::string_view tensor) { return others.path_of(tensor) == file.path(); });
}

void WeightFiles::add_file(const std::string& path, bool replace,
                           const std::function<bool(std::string_view)>& is_wanted) {
  const std::size_t file_number = files_.size();
  files_.emplace_back(path);
  for (const StoredTensor& tensor : files_.back().tensors()) {
    if (is_wanted && !is_wanted(tensor.name)) continue;
    const auto [found, added] = by_name_.emplace(tensor.name, Place{.file = file_number});
    if (!added && replace) {
      found->second = {.file = file_number};
      continue;
    }
    if (!added)
      fail(path,
           fmt::format("tensor '{}' is also in '{}'; every tensor must be unique",
                       printable(tensor.name), path_of(tensor.name)),
           "the checkpoint is inconsistent: download or export it again");
    names_.push_back(tensor.name);
  }
}

void WeightFiles::add_gguf(const std::string& path) {
  gguf_ = std::make_unique<GgufModel>(path);
  path_ = gguf_->path();
  gguf_weights_ = gguf_weights(*gguf_);
  for (const GgufWeight& weight : gguf_weights_) {
    by_name_.emplace(weight.name, Place{.gguf = &weight});
    names_.push_back(weight.name);
  }
}

void WeightFiles::add_index(const std::string& index_path) {
  const JsonDocument index = JsonDocument::read(index_path, publishers::kPythonJson);
  const JsonValue map = index.root().at("weight_map");
  std::set<std::string> shards;
  for (const auto& [tensor, file] : map.members()) {
    if (!is_plain_name(file.as_string()))
      file.fail(
          fmt::format("must be the name of a file beside the index, got {}", file.describe()));
    shards.emplace(file.as_string());
  }
  if (shards.empty()) fail(index_path, "'weight_map' is empty", "export the model again");
  const fs::path directory = fs::path(index_path).parent_path();
  std::vector<std::string> missing;
  for (const std::string& file : shards)
    if (std::error_code ec; !fs::exists(directory / file, ec)) missing.push_back(file);
  if (!missing.empty())
    fail(index_path,
         fmt::format("{} of its {} shards are missing: '{}'{}", missing.size(), shards.size(),
                     printable(missing.front()), missing.size() > 1 ? " and others" : ""),
         "download the missing files into the same directory");

  std::unordered_map<std::string_view, std::string_view> shard_of;
  for (const auto& [tensor, file] : map.members()) shard_of.emplace(tensor, file.as_string());
  for (const std::string& file : shards)
    add_file((directory / file).string(), false, [&](std::string_view tensor) {
      const auto named = shard_of.find(tensor);
      return named == shard_of.end() || named->second == file;
    });
  for (const auto& [tensor, file] : shard_of)
    if (by_name_.count(tensor) == 0)
      wrong_shards_.emplace(tensor, WrongShard{(directory / file).string(), {}});
  if (wrong_shards_.empty()) return;
  for (const SafetensorsFile& file : files_)
    for (const StoredTensor& tensor : file.tensors())
      if (const auto wrong = wrong_shards_.find(tensor.name);
          wrong != wrong_shards_.end() && wrong->second.right.empty())
        wrong->second.right = file.path();
}

const std::pair<const std::string, WeightFiles::WrongShard>* WeightFiles::find_wrong(
    std::string_view name) const {
  if (wrong_shards_.empty()) return nullptr;
  if (const auto found = wrong_shards_.find(name); found != wrong_shards_.end()) return &*found;
  constexpr std::string_view kWeight = ".weight";
  if (!name.ends_with(kWeight)) return nullptr;
  const std::string module(name.substr(0, name.size() - kWeight.size()));
  for (const publishers::PackedNames* names :
       {&publishers::kCompressedTensorsNames, &publishers::kGptqNames})
    if (const auto found = wrong_shards_.find(fmt::format("{}{}", module, names->values));
        found != wrong_shards_.end())
      return &*found;
  return nullptr;
}

std::string_view WeightFiles::shard_without(std::string_view name) const {
  const auto* found = find_wrong(name);
  return found ? std::string_view(found->second.named) : std::string_view();
}

std::string_view WeightFiles::shard_with(std::string_view name) const {
  const auto* found = find_wrong(name);
  return found ? std::string_view(found->second.right) : std::string_view();
}

std::string WeightFiles::shard_note(std::string_view name) const {
  const auto* found = find_wrong(name);
  if (!found) return "";
  const auto& [tensor, shard] = *found;
  const std::string what = tensor == name ? "it" : fmt::format("'{}'", printable(tensor));
  if (!shard.right.empty())
    return fmt::format("the index assigns {} to '{}', but it is in '{}': download the index again",
                       what, printable(shard.named), printable(shard.right));
  return fmt::format(
      "the index assigns {} to '{}', which does not contain it: download that file again", what,
      printable(shard.named));
}

std::vector<std::string_view> WeightFiles::names_without_shard() const {
  std::vector<std::string_view> out;
  for (const auto& [tensor, shard] : wrong_shards_) out.push_back(tensor);
  return out;
}

bool WeightFiles::contains(std::string_view name) const {
  if (by_name_.count(name) > 0 || stored_tensor(name)) return true;
  check_absent(name);
  return false;
}

void WeightFiles::check_absent(std::string_view name) const {
  if (std::string note = shard_note(name); !note.empty())
    fail(path_, fmt::format("tensor '{}' is missing", printable(name)), std::move(note));
}

void WeightFiles::check_index() const {
  for (const auto& [tensor, shard] : wrong_shards_)
    if (!shard.right.empty()) check_absent(tensor);
}

TensorView WeightFiles::tensor(std::string_view name) const {
  if (const auto found = packed_.find(name);
      found != packed_.end() && found->second.values != name) {
    TensorView out = tensor(found->second.values);
    out.name = found->first;
    return out;
  }
  const auto found = by_name_.find(name);
  if (found != by_name_.end())
    return found->second.gguf ? view(found->second.gguf->tensor)
                              : files_[found->second.file].tensor(name);
  if (const GgufTensor* stored = stored_tensor(name)) return view(*stored);
  check_absent(name);
  const std::vector<std::string> names(names_.begin(), names_.end());
  ErrorText error{
      path_, fmt::format("has no tensor '{}' among its {}", printable(name), names_.size()), {}};
  if (const std::string near = nearest_name(name, names); !near.empty())
    error.notes.push_back(fmt::format("did you mean '{}'?", near));
  throw UserError(ExitCode::checkpoint, std::move(error));
}

const formats::BlockFormat* WeightFiles::block_format(std::string_view name) const {
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    const Place& place = found->second;
    return place.gguf ? place.gguf->tensor.format : block_format_in(files_[place.file], name);
  }
  const GgufTensor* stored = stored_tensor(name);
  return stored ? stored->format : nullptr;
}

std::int64_t WeightFiles::paired_rows(std::string_view name) const {
  const GgufWeight* weight = paired_width_ > 0 ? gguf_weight(name) : nullptr;
  const bool paired = weight && std::ranges::any_of(kPairedTensors, [&](std::string_view tensor) {
                        return weight->stored_name.ends_with(tensor);
                      });
  return paired ? paired_width_ : 0;
}

const std::string& WeightFiles::path_of(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    for (std::size_t i = 0; gguf_ && i < gguf_->parts().size(); ++i)
      if (gguf_->parts()[i]->find_tensor(name)) return gguf_->parts()[i]->path();
    return path_;
  }
  return found->second.gguf ? found->second.gguf->file->path() : files_[found->second.file].path();
}

std::string_view WeightFiles::stored_name(std::string_view name) const {
  const GgufWeight* weight = gguf_weight(name);
  return weight ? weight->stored_name : name;
}

std::uint64_t WeightFiles::file_bytes() const {
  std::uint64_t total = gguf_ ? gguf_->file_bytes() : 0;
  for (const SafetensorsFile& file : files_) total += file.file_bytes();
  return total;
}

namespace {

struct Shard {
  std::string name;
  std::vector<TensorSpec> specs;
};

std::vector<Shard> shards_by_size(const std::vector<TensorSpec>& specs,
                                  const WeightFilesOptions& options) {
  std::vector<Shard> shards(1);
  std::uint64_t bytes = 0;
  for (const TensorSpec& spec : specs) {
    if (!shards.back().specs.empty() && bytes + num_bytes(spec) > options.max_shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().specs.push_back(spec);
    bytes += num_bytes(spec);
  }
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shards.size() == 1 ? options.stem + ".safetensors"
                                        : fmt::format("{}-{:05}-of-{:05}.safetensors", options.stem,
                                                      i + 1, shards.size());
  return shards;
}

std::vector<Shard> shards_as_given(const std::vector<TensorSpec>& specs,
                                   const WeightFilesOptions& options) {
  std::map<std::string, std::vector<TensorSpec>> by_file;
  for (const auto& [tensor, file] : options.file_of) by_file[file];
  for (const TensorSpec& spec : specs) {
    const auto found = options.file_of.find(spec.name);
    (found == options.file_of.end() ? by_file.rbegin()->second : by_file[found->second])
        .push_back(spec);
  }
  std::vector<Shard> shards;
  for (auto& [name, tensors] : by_file)
    if (!tensors.empty()) shards.push_back({name, std::move(tensors)});
  return shards;
}

}  // namespace

std::vector<FileDigest> write_weight_files(const std::string& directory,
                                           const std::vector<TensorSpec>& specs,
                                           const TensorSource& source,
                                           const WeightFilesOptions& options) {
  return write_weight_files(directory, specs, in_one_piece(source), options);
}

std::vector<FileDigest> write_weight_files(const std::string& directory,
                                           const std::vector<TensorSpec>& specs,
                                           const TensorStream& stream,
                                           const WeightFilesOptions& options) {
  std::vector<Shard> shards =
      options.file_of.empty() ? shards_by_size(specs, options) : shards_as_given(specs, options);
  std::uint64_t total_bytes = 0;
  for (const TensorSpec& spec : specs) total_bytes += num_bytes(spec);
  const bool alone = shards.size() == 1 && shards[0].name == options.stem + ".safetensors";
  std::vector<FileDigest> written;
  std::map<std::string, std::string> file_of;
  for (Shard& shard : shards) {
    LAMINA_ASSERT(is_plain_name(shard.name));
    for (const TensorSpec& spec : shard.specs)
      if (!file_of.emplace(spec.name, shard.name).second && !alone)
        user_error(ExitCode::checkpoint, directory,
                   "two tensors are named '{}'; names must be unique", printable(spec.name));
    written.push_back(write_safetensors(directory + "/" + shard.name, std::move(shard.specs),
                                        options.metadata, stream));
  }
  if (alone) return written;
  JsonWriter json(2);
  json.begin_object();
  json.key("metadata").begin_object().key("total_size").value(total_bytes).end_object();
  json.key("weight_map").begin_object();
  for (const auto& [tensor, file] : file_of) json.key(tensor).value(file);
  json.end_object().end_object();
  written.push_back(write_durably(
      fmt::format("{}/{}.safetensors.index.json", directory, options.stem), json.text() + "\n"));
  return written;
}

}  // namespace lamina::io
