#include "imports/configuration.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "core/error.h"

namespace lamina::imports {
namespace {

namespace fs = std::filesystem;

const std::string* text_of(const std::vector<Setting>& settings, std::string_view key) {
  const std::string* found = nullptr;
  for (const Setting& setting : settings)
    if (setting.key == key) found = setting.value.get_if<std::string>();
  return found;
}

fs::path find_base(const fs::path& file, const std::vector<Setting>& own) {
  const fs::path folder = file.parent_path();
  std::vector<fs::path> places;
  if (const std::string* named = text_of(own, "base_config")) places.push_back(folder / *named);
  places.insert(places.end(), {folder / "base.yml", folder / ".." / "base.yml"});
  std::vector<std::string> looked;
  for (const fs::path& place : places) {
    if (fs::exists(place)) return place;
    looked.push_back("looked for " + place.lexically_normal().string());
  }
  looked.emplace_back("MaxText's configurations rest on it; put a copy there");
  throw UserError(ExitCode::usage, {file.string(), "there is no base.yml", looked});
}

// The file of the model that is asked for, or nothing.
fs::path find_model(const fs::path& base, const std::vector<Setting>& own) {
  const std::string* name = text_of(own, "model_name");
  if (!name || *name == "default") return {};
  fs::path file = base.parent_path() / "models" / (*name + ".yml");
  if (fs::exists(file)) return file;
  throw UserError(ExitCode::usage,
                  {file.lexically_normal().string(),
                   fmt::format("does not exist; 'model_name' = '{}' names it", *name),
                   {}});
}

void append(std::vector<Setting>& out, std::vector<Setting> more) {
  out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

Configuration read_configuration(const fs::path& file, const std::vector<std::string>& settings) {
  const bool is_base = file.filename() == "base.yml";
  const bool is_model = fs::absolute(file).parent_path().filename() == "models";
  std::vector<Setting> own = read_yaml(file);
  Configuration out{.name = file.stem().string(), .base = {}, .given = {}};
  const fs::path base = is_base ? file : find_base(file, own);
  out.base = is_base ? std::exchange(own, {}) : read_yaml(base);
  for (const std::string& text : settings) own.push_back(parse_setting(text));
  if (is_model)
    out.given.push_back({"model_name", config::Value(out.name), file.string()});
  else if (const fs::path model = find_model(base, own); !model.empty())
    append(out.given, read_yaml(model));
  append(out.given, std::move(own));
  return out;
}

}  // namespace lamina::imports
