#include "registry/discovery.h"

#include <fmt/ranges.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>

#include "core/folder_entries.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/program_path.h"
#include "core/suggest.h"
#include "core/system_error.h"
#include "core/without_dots.h"
#include "registry/trust.h"

namespace lamina::registry {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path without_links(const fs::path& path) {
  std::error_code error;
  const fs::path out = fs::canonical(path, error);
  return error ? fs::absolute(path).lexically_normal() : out;
}

// Returns the reason why `folder` cannot be searched; "" if it can.
std::string folder_fault(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator opened(folder, error);
  if (!error) return "";
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory)
    return "is not a folder";
  return "cannot be read: " + system_error_text(error.value());
}

void add_variable_folders(const std::string& list, SearchPath& out) {
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t colon = std::min(list.find(':', at), list.size());
    const std::string element = list.substr(at, colon - at);
    at = colon + 1;
    const auto warn = [&](std::string text) {
      if (std::ranges::find(out.warnings, text) == out.warnings.end())
        out.warnings.push_back(std::move(text));
    };
    if (element.empty())
      warn(
          "LAMINA_PLUGIN_PATH has an empty element, which is not the current folder; remove it, or "
          "write the path of the folder");
    else if (!fs::path(element).is_absolute())
      warn(fmt::format("LAMINA_PLUGIN_PATH: '{}' is skipped; write it as an absolute path",
                       element));
    else if (const std::string fault = folder_fault(element); !fault.empty())
      warn(fmt::format("LAMINA_PLUGIN_PATH: '{}' {}; correct or remove it", element, fault));
    else
      out.folders.push_back(without_dots(element));
  }
}

// Several parts of a command look for the plugin of one model.
void log_once(log::Level level, const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> logged;
  const std::lock_guard lock(mutex);
  if (logged.insert(line).second) log::write(level, line);
}

constexpr std::string_view kTrust =
    "remove the write permission (chmod o-w), or set LAMINA_TRUST_PLUGINS=1";

// Returns the advice about two plugins that were found in the same way.
std::string choice_between(FoundBy found_by) {
  return found_by == FoundBy::named_file ? "name only one of them with --plugin"
                                         : "remove one, or choose with --plugin FILE";
}

// Returns the error of `broken` on one line.
std::string one_line(const BrokenFile& broken) {
  return fmt::format("could not read {}: {}", broken.error.where, broken.error.what);
}

}  // namespace

SearchEnvironment SearchEnvironment::of_process() {
  SearchEnvironment out;
  if (const char* path = std::getenv("LAMINA_PLUGIN_PATH")) out.plugin_path = path;
  out.data_home = variable("XDG_DATA_HOME");
  out.home = variable("HOME");
  out.executable = program_path();
  out.privileged = ::getauxval(AT_SECURE) != 0;
  out.trusts_writable = variable("LAMINA_TRUST_PLUGINS") == "1";
  return out;
}

SearchPath search_path(std::vector<fs::path> files, const SearchEnvironment& environment,
                       std::vector<fs::path> named_folders) {
  SearchPath out;
  out.files = std::move(files);
  for (const fs::path& folder : named_folders) {
    if (const std::string fault = folder_fault(folder); !fault.empty())
      throw UserError(ExitCode::usage, {"--plugin-path",
                                        fmt::format("'{}' {}", folder.string(), fault),
                                        {"give folders that contain *.lamina.so files"}});
    out.named_folders.push_back(without_dots(fs::absolute(folder)));
  }
  const bool use_variables = !environment.privileged;
  out.refuse_writable = ::geteuid() == 0 && !(use_variables && environment.trusts_writable);
  if (use_variables && environment.plugin_path && !environment.plugin_path->empty())
    add_variable_folders(*environment.plugin_path, out);
  if (use_variables) {
    if (fs::path(environment.data_home).is_absolute())
      out.folders.push_back(fs::path(environment.data_home) / "lamina" / "plugins");
    else if (fs::path(environment.home).is_absolute())
      out.folders.push_back(fs::path(environment.home) / ".local/share/lamina/plugins");
  }
  if (environment.executable.is_absolute())
    out.folders.push_back(environment.executable.parent_path().parent_path() /
                          "lib/lamina/plugins");
  return out;
}

Catalog Catalog::scan(SearchPath search) {
  Catalog out;
  out.search_ = std::move(search);
  for (const fs::path& file : out.search_.files) {
    if (file.empty())
      throw PluginError({"--plugin", "must be a file, got \"\"", {"eg: --plugin x.lamina.so"}});
    out.add_file(file, FoundBy::named_file);
  }
  for (const fs::path& folder : out.search_.named_folders)
    out.add_folder(folder, FoundBy::named_folder);
  for (const fs::path& folder : out.search_.folders) out.add_folder(folder, FoundBy::folder);
  return out;
}

void Catalog::add_folder(const fs::path& folder, FoundBy found_by) {
  std::vector<fs::path> files;
  for (const auto& item : folder_entries(folder))
    if (item.path().filename().string().ends_with(kPluginSuffix)) files.push_back(item.path());
  std::sort(files.begin(), files.end());
  // A family may still come from another folder, so this is logged even if nothing fails.
  std::set<std::string> said;
  for (const fs::path& file : files)
    if (search_.refuse_writable)
      if (std::string why = writable_by_anyone(file); !why.empty() && said.insert(why).second)
        log::warning("plugins are skipped: {}; {}", why, kTrust);
  for (const fs::path& file : files) add_file(file, found_by);
}

void Catalog::add_file(const fs::path& path, FoundBy found_by) {
  const fs::path real = without_links(path), place = without_dots(fs::absolute(path));
  const auto same = [&](const auto& other) { return other.path == real; };
  if (std::ranges::any_of(plugins_, same) || std::ranges::any_of(broken_, same) ||
      std::ranges::find(broken_, place, &BrokenFile::path) != broken_.end())
    return;
  fs::path refused = real;
  try {
    PluginFile plugin{.path = real, .place = place, .elf = read_elf(real), .found_by = found_by};
    check_file_rules(plugin.elf);
    plugin.manifest = parse_manifest(plugin.elf.manifest, real.string());
    refused = place;  // the file itself may still be found in a folder that only root can change
    if (search_.refuse_writable)
      if (std::string why = writable_by_anyone(place); !why.empty())
        throw PluginError({place.string(), std::move(why), {std::string(kTrust)}});
    plugins_.push_back(std::move(plugin));
  } catch (const PluginError& unusable) {
    if (found_by == FoundBy::named_file) throw;
    broken_.push_back({refused, unusable.text()});
  }
}

void require_trusted(const fs::path& file) {
  if (::geteuid() != 0 || SearchEnvironment::of_process().trusts_writable) return;
  if (std::string why = writable_by_anyone(file); !why.empty())
    throw PluginError({file.string(), std::move(why), {std::string(kTrust)}});
}

std::vector<std::string> Catalog::family_names() const {
  std::set<std::string> names;
  for (const PluginFile& plugin : plugins_)
    for (const FamilyNames& family : plugin.manifest.families) names.insert(family.name);
  return {names.begin(), names.end()};
}

void Catalog::not_found(std::string_view where, std::string what, std::string_view name) const {
  for (const BrokenFile& broken : broken_) {
    const std::string file = broken.path.filename().string();
    if (name.empty() || file != std::string(name) + std::string(kPluginSuffix)) continue;
    ErrorText text = broken.error;
    text.notes.insert(text.notes.begin(), fmt::format("{} refers to family '{}'", where, name));
    throw PluginError(std::move(text));
  }
  std::vector<std::string> folders;
  for (const fs::path& folder : search_.named_folders) folders.push_back(folder.string());
  for (const fs::path& folder : search_.folders) folders.push_back(folder.string());
  ErrorText text{std::string(where), std::move(what), {}};
  const std::string nearest = name.empty() ? "" : nearest_name(name, family_names());
  if (!nearest.empty()) text.notes.push_back(fmt::format("did you mean '{}'?", nearest));
  text.notes.push_back(fmt::format("looked in: {}", joined(folders)));
  for (const BrokenFile& broken : broken_) text.notes.push_back(one_line(broken));
  text.notes.push_back("give a plugin with --plugin FILE, or its folder in LAMINA_PLUGIN_PATH");
  throw PluginError(std::move(text));
}

FamilyFile Catalog::find(std::string_view name, std::string_view where) const {
  std::vector<FamilyFile> found;
  for (const PluginFile& plugin : plugins_)
    for (const FamilyNames& family : plugin.manifest.families)
      if (family.is_called(name)) found.push_back({family.name, &plugin});
  if (found.empty())
    not_found(where,
              fmt::format("no plugin has family '{}'; found: {}", name, joined(family_names())),
              name);
  // The way of finding with precedence comes first, because the search path is read in that order.
  const FoundBy first = found.front().file->found_by;
  if (found.size() > 1 && found[1].file->found_by == first)
    throw PluginError(
        {std::string(where),
         fmt::format("two plugins have family '{}'; only one is allowed", name),
         {found[0].file->path.string(), found[1].file->path.string(), choice_between(first)}});
  if (found.size() > 1)
    log_once(log::Level::info,
             fmt::format("family '{}' comes from {}, which was named on the command line; the one "
                         "in {} is not used",
                         name, found[0].file->path.string(), found[1].file->path.string()));
  return found.front();
}

FamilyFile Catalog::find_published(std::string_view model_type,
                                   const std::vector<std::string>& architectures,
                                   std::string_view where, std::string_view text_model_type) const {
  // The family with the most specific match. Files named by --plugin, which are read first, lose
  // only to each other.
  std::string best, better;
  int best_score = 0;
  const PluginFile *best_file = nullptr, *equal_file = nullptr, *better_file = nullptr;
  for (const PluginFile& plugin : plugins_)
    for (const FamilyNames& family : plugin.manifest.families) {
      const int score = family.fit(model_type, architectures, text_model_type);
      const bool may_win = !best_file || best_file->found_by != FoundBy::named_file ||
                           plugin.found_by == FoundBy::named_file;
      if (score > best_score && may_win) {
        best = family.name, best_score = score;
        best_file = &plugin, equal_file = nullptr;
      } else if (score > best_score && !better_file) {
        better = family.name, better_file = &plugin;
      } else if (score == best_score && score > 0 && best_file != &plugin && !equal_file &&
                 family.name != best) {  // find() refuses two files with one family
        equal_file = &plugin;
      }
    }
  if (equal_file && equal_file->found_by == best_file->found_by)
    log_once(log::Level::warning,
             fmt::format("{}: {} and {} read this model; the first is used; {}", where,
                         best_file->path.string(), equal_file->path.string(),
                         choice_between(best_file->found_by)));
  if (better_file && better != best)
    log_once(
        log::Level::info,
        fmt::format("{}: family '{}' comes from {}, which was named on the command line; '{}' "
                    "in {}, which fits this model better, is not used",
                    where, best, best_file->path.string(), better, better_file->path.string()));
  if (best_score > 0 && best_score % 4 == 0 && !model_type.empty())
    log_once(log::Level::warning,
             fmt::format("{}: 'model_type' is '{}', which family '{}' does not have; its "
                         "architecture {} chooses the family; correct one of them",
                         where, printable(model_type), best, joined(architectures)));
  if (best_score > 0) return find(best, where);
  // The model_type of the whole model may be known with other language models, so the model_type in
  // text_config is the reason.
  if (!text_model_type.empty())
    not_found(where,
              fmt::format(
                  "no plugin reads the language model of model_type '{}' in its text_config (the "
                  "outer model_type is '{}' and the architecture {}); families found: {}",
                  text_model_type, model_type,
                  architectures.empty() ? "(none)" : joined(architectures), joined(family_names())),
              text_model_type);
  not_found(where,
            fmt::format("no plugin reads checkpoints of model_type '{}' and architecture {}; "
                        "families found: {}",
                        model_type, architectures.empty() ? "(none)" : joined(architectures),
                        joined(family_names())),
            model_type);
}

std::vector<FamilyFile> Catalog::other_readers(std::string_view family, std::string_view model_type,
                                               const std::vector<std::string>& architectures,
                                               std::string_view text_model_type) const {
  std::vector<FamilyFile> out;
  for (const PluginFile& plugin : plugins_)
    for (const FamilyNames& other : plugin.manifest.families)
      if (other.name != family && other.fit(model_type, architectures, text_model_type) > 0)
        out.push_back({other.name, &plugin});
  return out;
}

std::string joined(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace lamina::registry
