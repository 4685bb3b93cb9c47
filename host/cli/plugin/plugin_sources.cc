#include "cli/plugin/plugin_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <regex>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/program_path.h"
#include "core/read_file.h"
#include "core/suggest.h"
#include "core/system_error.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemplateName = "my_family";

// Converts "my_family" to "MyFamily".
std::string class_name(const std::string& name) {
  std::string out;
  bool upper = true;
  for (char c : name) {
    if (c != '_') out += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '_';
  }
  return out;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// share/lamina/<what> beside the program's folder.
fs::path installed(std::string_view what) {
  std::error_code error;
  fs::path folder = program_path().parent_path().parent_path() / "share/lamina" / what;
  if (!fs::is_directory(folder, error))
    throw UserError(ExitCode::usage, {folder.string(),
                                      "the sources of plugins are missing",
                                      {"install lamina with its component plugin_api"}});
  return folder;
}

// True for the sources of a plugin in C++, which the project of the template builds.
bool is_plugin(const fs::path& folder) { return fs::exists(folder / "model.cc"); }

// The sources of a built-in plugin, or of an example.
fs::path sources_of(const std::string& plugin) {
  std::vector<std::string> names;
  for (const char* where : {"plugins", "examples/plugins"}) {
    const fs::path all = installed(where);
    if (is_plugin(all / plugin)) return all / plugin;
    for (const auto& item : fs::directory_iterator(all)) {
      const std::string name = item.path().filename().string();
      if (is_plugin(item.path()))
        names.push_back(name);
      else if (item.is_directory() && name == plugin)
        throw UserError(ExitCode::usage,
                        {"--from",
                         fmt::format("'{}' is not in C++; only plugins in C++ can be copied", name),
                         {fmt::format("its sources are in {}", item.path().string())}});
    }
  }
  std::ranges::sort(names);
  const std::string nearest = nearest_name(plugin, names);
  throw UserError(ExitCode::usage,
                  {"--from",
                   fmt::format("lamina has no plugin '{}'", plugin),
                   {nearest.empty() ? fmt::format("there are: {}", fmt::join(names, ", "))
                                    : fmt::format("did you mean '{}'?", nearest)}});
}

void write_file(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  errno = 0;
  out << text;
  out.close();
  if (!out)
    throw UserError(ExitCode::checkpoint,
                    {file.string(),
                     fmt::format("cannot be written: {}", system_error_text(errno)),
                     {"check the disk and the folder's permissions"}});
}

// Copies the files below `from`; `change` rewrites the path and the text of a file.
template <typename Change>
void copy_files(const fs::path& from, const fs::path& to, Change&& change) {
  for (const auto& item : fs::recursive_directory_iterator(from)) {
    std::string place = fs::relative(item.path(), from).string(), text;
    const bool is_file = item.is_regular_file();
    if (is_file) text = read_file(item.path().string(), ExitCode::usage);
    change(place, text);
    if (item.is_directory()) fs::create_directories(to / place);
    if (is_file) write_file(to / place, text);
  }
}

// Refuses a name that the code of a plugin uses: as a namespace it would hide, or be mistaken for,
// a name of the SDK or of the plugin.
void check_words(const fs::path& sources, const std::string& plugin, const std::string& name) {
  static const std::regex comment_or_string(R"re(//[^\n]*|"([^"\\\n]|\\.)*")re");
  const std::regex word(fmt::format(R"(\b{}\b)", name));
  constexpr std::string_view kCode[] = {".cc", ".h", ".cu", ".cuh"};
  for (const auto& item : fs::recursive_directory_iterator(sources)) {
    if (std::ranges::find(kCode, item.path().extension().string()) == std::end(kCode)) continue;
    const std::string text = read_file(item.path().string(), ExitCode::usage);
    if (name == plugin || !std::regex_search(std::regex_replace(text, comment_or_string, ""), word))
      continue;
    throw UserError(ExitCode::usage,
                    {"plugin new",
                     fmt::format("'{}' is a name in {} of {}, and cannot be its namespace", name,
                                 item.path().filename().string(),
                                 plugin == kTemplateName ? "the template" : plugin),
                     {fmt::format("choose a name like 'my_{}'", name)}});
  }
}

void copy_template(const fs::path& to, const std::string& name) {
  check_words(installed("plugin_api/template"), std::string(kTemplateName), name);
  copy_files(installed("plugin_api/template"), to, [&](std::string& place, std::string& text) {
    replace_all(place, kTemplateName, name);
    replace_all(text, kTemplateName, name);
    replace_all(text, class_name(std::string(kTemplateName)), class_name(name));
  });
}

// The names of families in a plugin's sources, and in the copy.
using RenamedFamilies = std::vector<std::pair<std::string, std::string>>;

// A family's declaration up to its aliases: its constant, its name.
const std::regex& declaration() {
  static const std::regex out(
      R"re((k[A-Za-z0-9]+) = \{\s*\.family = \{\.name = "([a-z0-9_]+)",(\s*\.aliases = \{[^}]*\},)?)re");
  return out;
}

// The first family of LAMINA_PLUGIN(...) gets the new name, the others get it as a prefix.
RenamedFamilies names_of_copy(const fs::path& sources, const std::string& name) {
  std::string text;
  for (const auto& item : fs::directory_iterator(sources))
    if (const auto suffix = item.path().extension(); suffix == ".cc" || suffix == ".h")
      text += read_file(item.path().string(), ExitCode::usage);
  static const std::regex first(
      R"re(LAMINA_PLUGIN\("[^"]*", "[^"]*",\s*[a-z0-9_]+::(k[A-Za-z0-9]+))re");
  std::smatch plugin;
  std::regex_search(text, plugin, first);
  RenamedFamilies out;
  for (std::sregex_iterator at(text.begin(), text.end(), declaration()), end; at != end; ++at) {
    const std::string family = (*at)[2];
    if ((*at)[1] == plugin[1])
      out.emplace(out.begin(), family, name);
    else
      out.emplace_back(family, name + "_" + family);
  }
  return out;
}

// Refuses a name that is too long as a prefix of families.
void check_lengths(const std::string& plugin, const std::string& name,
                   const RenamedFamilies& families) {
  const auto longest =
      std::ranges::max_element(families, {}, [](const auto& one) { return one.second.size(); });
  if (longest == families.end() || longest->second.size() <= registry::kMaxName) return;
  const std::size_t added = longest->second.size() - name.size();
  throw UserError(
      ExitCode::usage,
      {"plugin new",
       fmt::format("'{}' has {} characters; with --from {} it must have at most {}", name,
                   name.size(), plugin, registry::kMaxName - added),
       {fmt::format(
           "a family of the copy would be called '{}', and names have at most {} characters",
           longest->second, registry::kMaxName)}});
}

// Renames the namespace, the plugin's id and the families, and removes the families' aliases, so
// that both plugins can be loaded. All published names stay: the copy reads the same files.
void rename_code(const std::string& plugin, const std::string& name,
                 const RenamedFamilies& families, std::string& text) {
  static const std::regex id(R"re(LAMINA_PLUGIN\("[^"]*")re");
  text = std::regex_replace(text, id, fmt::format("LAMINA_PLUGIN(\"{}{}\"", kIdPrefix, name));
  text = std::regex_replace(text, std::regex(fmt::format(R"(\bnamespace {}\b)", plugin)),
                            "namespace " + name);
  text = std::regex_replace(text, std::regex(fmt::format(R"(\b{}::)", plugin)), name + "::");
  text = std::regex_replace(text, declaration(), "$1 = {\n    .family = {.name = \"$2\",");
  for (const auto& [from, to] : families)
    for (const char* place : {".family = {.name = ", ".exports_as = ", "family = "})
      replace_all(text, fmt::format("{}\"{}\"", place, from), fmt::format("{}\"{}\"", place, to));
}

// The names of the plugin and of its families in the commands of a page.
void rename_commands(const std::string& plugin, const std::string& name,
                     const RenamedFamilies& families, std::string& page) {
  const std::string file = fmt::format("/{}.lamina.so", name);
  replace_all(page, fmt::format("/{}.lamina.so", plugin), file);
  for (const auto& [from, to] : families)
    replace_all(page, fmt::format("{} {}\n", file, from), fmt::format("{} {}\n", file, to));
}

// Returns whether the families of a plugin read published files.
bool has_published_names(const fs::path& sources) {
  return std::ranges::any_of(fs::directory_iterator(sources), [](const auto& item) {
    return item.is_regular_file() &&
           read_file(item.path().string(), ExitCode::usage).find(".hf_model_types") !=
               std::string::npos;
  });
}

// The page of the copy: its names, then the page of the original. Links to pages of lamina become
// their names, because the copy may be anywhere.
std::string page_of_copy(const std::string& plugin, const std::string& name,
                         const RenamedFamilies& families, bool is_published,
                         const std::string& original) {
  std::string out = fmt::format("# {}\n\nStarted from lamina's plugin `{}`.", name, plugin);
  for (const auto& [from, to] : families)
    out += fmt::format(" Family `{}` is here `{}`.", from, to);
  static const std::regex link(R"re(\[[^\]]*\]\((\.\./)+(docs/[^)]*)\))re");
  std::string page = std::regex_replace(original, link, "$2 of lamina");
  rename_commands(plugin, name, families, page);
  if (is_published)
    out += fmt::format(
        "\n\nThe copy still has the published names of `{}`: change `hf_model_types` and "
        "`hf_architectures` once it computes another model, because other programs compute "
        "the model of these names.\n\n",
        plugin);
  else
    out += " ";
  return out + fmt::format("The page of `{}` follows.\n{}", plugin,
                           page.substr(std::min(page.find('\n'), page.size())));
}

// Returns what the sources of a plugin give to lamina_add_plugin() after its name, eg "CHECK full
// GPU_KERNELS kernels.cu". Copies are checked, whether the source is or not.
std::string options_of_build(const fs::path& sources) {
  const std::string project = read_file((sources / "CMakeLists.txt").string(), ExitCode::usage);
  static const std::regex call(R"(lamina_add_plugin\(\s*\w+\s*([^)]*)\))");
  std::smatch found;
  const std::string options = std::regex_search(project, found, call) ? found[1].str() : "";
  if (options.find("CHECK") != options.npos) return options;
  return options.empty() ? "CHECK" : "CHECK " + options;
}

}  // namespace

bool copy_plugin_sources(const std::string& from, const fs::path& to, const std::string& name) {
  if (from.empty()) {
    copy_template(to, name);
    return false;
  }
  const fs::path sources = sources_of(from);
  const bool is_published = has_published_names(sources);
  const RenamedFamilies families = names_of_copy(sources, name);
  check_lengths(from, name, families);
  check_words(sources, from, name);
  copy_files(sources, to, [&](std::string& place, std::string& text) {
    if (place == fmt::format("check/{}.toml", from)) place = fmt::format("check/{}.toml", name);
    if (place == "README.md")
      text = page_of_copy(from, name, families, is_published, text);
    else
      rename_code(from, name, families, text);
  });
  std::string project =
      read_file((installed("plugin_api/template") / "CMakeLists.txt").string(), ExitCode::usage);
  replace_all(project, fmt::format("{} CHECK)", kTemplateName),
              fmt::format("{} {})", kTemplateName, options_of_build(sources)));
  replace_all(project, kTemplateName, name);
  write_file(to / "CMakeLists.txt", project);
  return is_published;
}

}  // namespace lamina::cli
