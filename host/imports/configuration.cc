#include "imports/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/suggest.h"
#include "core/without_dots.h"

namespace lamina::imports {
namespace {

namespace fs = std::filesystem;

const std::string* text_of(const std::vector<YamlSetting>& settings, std::string_view key) {
  const std::string* found = nullptr;
  for (const YamlSetting& setting : settings)
    if (setting.key == key) found = setting.value.get_if<std::string>();
  return found;
}

constexpr int kMaxFolders = 5;  // levels above a file in which base files are searched
constexpr int kMaxFiles = 8;    // each based on the next

// Returns `name` ("base.yml", "post_train/distillation.yml") in the folder of `file` or above it,
// as in a repository.
fs::path find_upwards(const fs::path& file, const std::string& name) {
  std::vector<std::string> looked;
  fs::path folder = file.parent_path();
  for (int up = 0; up <= kMaxFolders; ++up, folder /= "..") {
    const fs::path place = without_dots(folder / name);
    std::error_code none;
    if (fs::exists(place, none) && !fs::equivalent(place, file, none)) return place;
    looked.push_back("searched " + place.string());
  }
  looked.emplace_back("configurations of MaxText are based on it; put a copy there");
  throw UserError(ExitCode::usage, {file.string(), name + " is missing", looked});
}

// Advises on a model file that does not exist.
std::string advice_on_model(const fs::path& file) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& item : fs::directory_iterator(file.parent_path(), none))
    if (item.path().extension() == ".yml") names.push_back(item.path().stem().string());
  if (const std::string nearest = nearest_name(file.stem().string(), names); !nearest.empty())
    return fmt::format("did you mean '{}'?", nearest);
  return names.empty() ? "copy the folder models of MaxText to the folder of its base"
                       : "copy it there, or choose one of that folder";
}

// Returns the file of the requested model, or nothing.
fs::path find_model(const fs::path& base, const std::vector<YamlSetting>& own) {
  const std::string* name = text_of(own, "model_name");
  if (!name || *name == "default") return {};
  fs::path file = base.parent_path() / "models" / (*name + ".yml");
  if (fs::exists(file)) return file;
  throw UserError(ExitCode::usage,
                  {without_dots(file).string(),
                   fmt::format("does not exist, but 'model_name' = '{}' refers to it", *name),
                   {advice_on_model(file)}});
}

// Refuses another model_name above a file that is a model.
void refuse_other_models(const fs::path& file, const std::vector<YamlSetting>& own) {
  const std::string* name = text_of(own, "model_name");
  if (!name || *name == "default" || *name == file.stem()) return;
  throw UserError(ExitCode::usage,
                  {file.string(),
                   fmt::format("is a model, but 'model_name' = '{}' refers to another", *name),
                   {fmt::format("remove model_name, or import {0}.yml instead of {1}", *name,
                                file.filename().string())}});
}

void append(std::vector<YamlSetting>& out, std::vector<YamlSetting> more) {
  out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Reads the base of `file`: a file without a base. Settings of files in between are inserted below
// `own`.
std::vector<YamlSetting> read_layers(fs::path& file, std::vector<YamlSetting>& own) {
  const std::string* named = text_of(own, "base_config");
  std::string below = named ? *named : "base.yml";
  for (int i = 0; i < kMaxFiles; ++i) {
    file = find_upwards(file, below);
    std::vector<YamlSetting> settings = read_yaml(file);
    named = text_of(settings, "base_config");
    if (!named || named->empty()) return settings;
    below = *named;
    append(settings, std::exchange(own, {}));
    own = std::move(settings);
  }
  throw UserError(ExitCode::usage, {file.string(),
                                    fmt::format("more than {} files are based on each "
                                                "other",
                                                kMaxFiles),
                                    {"a 'base_config' may refer back to an earlier file"}});
}

// Settings for the student of a distillation take precedence over all others.
void set_student(std::vector<YamlSetting>& own) {
  constexpr std::string_view kStudent = "student_overrides.";
  std::ranges::stable_partition(
      own, [&](const YamlSetting& setting) { return !setting.key.starts_with(kStudent); });
  for (YamlSetting& setting : own)
    if (setting.key.starts_with(kStudent)) setting.key.erase(0, kStudent.size());
}

// Refuses files that lamina reads without a conversion.
void refuse_other_kinds(const fs::path& file) {
  constexpr std::string_view kExpected = "expected a configuration of MaxText, in YAML";
  std::error_code error;
  const bool is_model = fs::is_directory(file, error) && fs::exists(file / "config.json", error);
  if (is_model || file.extension() == ".json") {
    const fs::path folder = is_model ? file : file.parent_path();
    const std::string model = folder.empty() ? "." : folder.string();
    throw UserError(
        ExitCode::usage,
        {file.string(),
         fmt::format("is {}; {}",
                     is_model ? "a directory of a Hugging Face model"
                              : "JSON, as the config.json of a Hugging Face model",
                     kExpected),
         {fmt::format("such a model needs no import: write model = {0} in a run file, or "
                      "train.from = {0} to begin with its weights",
                      config::to_toml(config::Value(model)))}});
  }
  if (file.extension() == ".toml")
    throw UserError(ExitCode::usage,
                    {file.string(),
                     fmt::format("is TOML, the form of lamina's own files; {}", kExpected),
                     {"it needs no import: `lamina train` reads run files, and model = \"FILE\" in "
                      "a run file names a file of a model"}});
}

}  // namespace

Configuration read_configuration(const fs::path& file, const std::vector<std::string>& settings) {
  refuse_other_kinds(file);
  const bool is_base = file.filename() == "base.yml";
  std::vector<YamlSetting> own = read_yaml(file);
  const bool is_model =
      fs::absolute(file).parent_path().filename() == "models" && !text_of(own, "model_name");
  Configuration out{.name = file.stem().string(), .file = file.string(), .base = {}, .given = {}};
  fs::path base = file;
  out.base = is_base ? std::exchange(own, {}) : read_layers(base, own);
  for (const std::string& text : settings) own.push_back(parse_setting(text));
  set_student(own);
  std::erase_if(own, [](const YamlSetting& setting) { return setting.key == "base_config"; });
  if (is_model) {
    refuse_other_models(file, own);
    out.given.push_back({"model_name", config::Value(out.name), file.string()});
  } else if (const fs::path model = find_model(base, own); !model.empty()) {
    append(out.given, read_yaml(model));
  }
  append(out.given, std::move(own));
  return out;
}

}  // namespace lamina::imports
