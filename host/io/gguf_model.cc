#include "io/gguf_model.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "core/folder_entries.h"
#include "core/read_file.h"
#include "io/weight_files.h"

namespace lamina::io {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMagic = "GGUF", kCount = "split.count", kNumber = "split.no",
                           kTensors = "split.tensors.count";

// "DIR/NAME-00002-of-00005.gguf".
struct PartName {
  std::string stem;  // "DIR/NAME"
  int number = 0, count = 0;

  std::string of(int part) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", stem, part, count);
  }
};

// Returns count 0 for a path of another form.
PartName part_name(const std::string& path) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf";
  if (path.size() <= kForm.size()) return {};
  const std::size_t begin = path.size() - kForm.size();
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const char c = path[begin + i];
    if (kForm[i] == '0' ? c < '0' || c > '9' : c != kForm[i]) return {};
  }
  PartName out{path.substr(0, begin), std::stoi(path.substr(begin + 1, 5)),
               std::stoi(path.substr(begin + 10, 5))};
  if (out.number < 1 || out.number > out.count) return {};
  return out;
}

[[noreturn]] void refuse(const std::string& path, std::string what, std::string note) {
  throw UserError(ExitCode::checkpoint, {path, std::move(what), {std::move(note)}});
}

[[noreturn]] void refuse_missing(const PartName& name, int part) {
  refuse(name.of(part), fmt::format("is missing; it is part {} of {} of a model", part, name.count),
         "download the missing file into the same directory");
}

// Returns 1 for a file that is not split.
std::int64_t parts_of(const GgufFile& file) { return file.integer(kCount).value_or(1); }

std::string first_part(const std::string& path) {
  const PartName name = part_name(path);
  if (name.number <= 1) return path;
  if (std::error_code ec; !fs::exists(name.of(1), ec)) refuse_missing(name, 1);
  return name.of(1);
}

}  // namespace

GgufModel::GgufModel(const std::string& path) {
  parts_.push_back(std::make_unique<GgufFile>(first_part(path)));
  const std::int64_t count = parts_of(first());
  if (count <= 1) return;
  const std::string& begin = first().path();
  const PartName name = part_name(begin);
  const std::int64_t number = first().integer(kNumber).value_or(0);
  if (name.count != count || name.number != number + 1)
    refuse(begin,
           fmt::format("is part {} of {} of a model, but is not named NAME-{:05}-of-{:05}.gguf",
                       number + 1, count, number + 1, count),
           "rename all parts to their published names");
  for (int part = 1; part <= name.count; ++part)  // check all names before opening the first
    if (std::error_code ec; !fs::exists(name.of(part), ec)) refuse_missing(name, part);
  std::size_t tensors = first().tensors().size();
  for (int part = 2; part <= name.count; ++part) {
    const GgufFile& file = *parts_.emplace_back(std::make_unique<GgufFile>(name.of(part)));
    const std::int64_t own = file.integer(kNumber).value_or(-1) + 1, all = parts_of(file);
    if (own != part || all != count)
      refuse(
          file.path(),
          fmt::format("claims to be part {} of {}; expected part {} of {}", own, all, part, count),
          "download all parts of the model again");
    tensors += file.tensors().size();
  }
  const auto said = first().integer(kTensors);
  if (said && static_cast<std::uint64_t>(*said) != tensors)
    refuse(begin,
           fmt::format("claims that its {} parts have {} tensors, but they have "
                       "{}",
                       count, *said, tensors),
           "download all parts of the model again");
}

const GgufTensor* GgufModel::find_tensor(std::string_view name) const {
  for (const auto& part : parts_)
    if (const GgufTensor* found = part->find_tensor(name)) return found;
  return nullptr;
}

std::uint64_t GgufModel::file_bytes() const {
  std::uint64_t total = 0;
  for (const auto& part : parts_) total += part->file_bytes();
  return total;
}

std::string gguf_in(const std::string& path) {
  std::error_code ec;
  if (fs::is_regular_file(path, ec)) {
    const bool is_gguf = path.ends_with(".gguf") ||
                         read_beginning(path, ExitCode::checkpoint, kMagic.size()) == kMagic;
    return is_gguf ? first_part(path) : "";
  }
  for (const char* other : {"config.json", "model.toml", "checkpoints"})
    if (fs::exists(fs::path(path) / other, ec)) return "";
  if (has_weight_set(path)) return "";
  std::set<std::string> found;
  for (const auto& entry : folder_entries(path))
    if (entry.path().extension() == ".gguf") {
      const PartName part = part_name(entry.path().string());
      found.insert(part.count == 0 ? entry.path().string() : part.of(1));
    }
  if (found.size() > 1)
    refuse(path, fmt::format("contains {} models in GGUF files; expected one", found.size()),
           fmt::format("give the path of one file, eg {}", *found.begin()));
  if (found.empty()) return "";
  if (!fs::exists(*found.begin(), ec)) refuse_missing(part_name(*found.begin()), 1);
  return *found.begin();
}

}  // namespace lamina::io
