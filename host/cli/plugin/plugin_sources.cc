#include "cli/plugin/plugin_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/program_path.h"
#include "core/read_file.h"

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
    for (const auto& item : fs::directory_iterator(all))
      if (is_plugin(item.path())) names.push_back(item.path().filename().string());
  }
  std::ranges::sort(names);
  throw UserError(ExitCode::usage, {"--from",
                                    fmt::format("lamina has no plugin '{}'", plugin),
                                    {fmt::format("there are: {}", fmt::join(names, ", "))}});
}

void write_file(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out)
    throw UserError(
        ExitCode::checkpoint,
        {file.string(), "cannot be written", {"check the disk and the folder's permissions"}});
}

// Copies the files below `from`; `change` rewrites names and texts.
template <typename Change>
void copy_files(const fs::path& from, const fs::path& to, Change&& change) {
  for (const auto& item : fs::recursive_directory_iterator(from)) {
    std::string place = fs::relative(item.path(), from).string();
    change(place);
    const fs::path target = to / place;
    if (item.is_directory()) {
      fs::create_directories(target);
      continue;
    }
    if (!item.is_regular_file()) continue;
    std::string text = read_file(item.path().string(), ExitCode::usage);
    change(text);
    write_file(target, text);
  }
}

void copy_template(const fs::path& to, const std::string& name) {
  copy_files(installed("plugin_api/template"), to, [&](std::string& text) {
    replace_all(text, kTemplateName, name);
    replace_all(text, class_name(std::string(kTemplateName)), class_name(name));
  });
}

// Renames the families of the copy, so that both plugins can be loaded.
void rename_family(const std::string& plugin, const std::string& name, std::string& text) {
  static const std::regex aliases("\\s*\\.aliases = \\{[^}]*\\},");
  text = std::regex_replace(text, aliases, "");
  replace_all(text, "org.lamina.examples." + plugin, "org.example." + plugin);
  replace_all(text, "org.lamina." + plugin, "org.example." + plugin);
  std::string capital = plugin;
  capital[0] = static_cast<char>(capital[0] - 'a' + 'A');
  replace_all(text, plugin, name);
  replace_all(text, capital + "ForCausalLM", class_name(name) + "ForCausalLM");
  static const std::regex named(
      "(\\.name = \"|\\.hf_model_types = \\{\"|\nfamily = \")([a-z0-9_]+)");
  std::string out;
  std::size_t at = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), named), end; match != end; ++match) {
    const std::string family = (*match)[2];
    out += text.substr(at, static_cast<std::size_t>(match->position()) - at);
    out += (*match)[1].str() + (family.find(name) == family.npos ? name + "_" : "") + family;
    at = static_cast<std::size_t>(match->position() + match->length());
  }
  text = out + text.substr(at);
}

}  // namespace

void copy_plugin_sources(const std::string& from, const fs::path& to, const std::string& name) {
  if (from.empty()) return copy_template(to, name);
  const fs::path sources = sources_of(from);
  copy_files(sources, to, [&](std::string& text) { rename_family(from, name, text); });
  std::string project =
      read_file((installed("plugin_api/template") / "CMakeLists.txt").string(), ExitCode::usage);
  replace_all(project, kTemplateName, name);
  write_file(to / "CMakeLists.txt", project);
}

}  // namespace lamina::cli
