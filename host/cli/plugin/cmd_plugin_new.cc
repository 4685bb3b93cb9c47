// lamina plugin new: copies the template under a name chosen by the user.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cli/plugin/plugin_sources.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/shell_word.h"
#include "core/program_path.h"
#include "core/system_error.h"
#include "ops/registry.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

// Keywords of C++20, alternative tokens and contextual keywords; then names that headers, compilers
// or lamina use.
constexpr std::string_view kTaken =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t "
    "char32_t char8_t class co_await co_return co_yield compl concept const const_cast "
    "consteval constexpr constinit continue decltype default delete do double dynamic_cast "
    "else enum explicit export extern false final float for friend goto if import inline int "
    "long module mutable namespace new noexcept not not_eq nullptr operator or or_eq "
    "override private protected public register reinterpret_cast requires return short "
    "signed sizeof static static_assert static_cast struct switch template this thread_local "
    "throw true try typedef typeid typename union unsigned using virtual void volatile "
    "wchar_t while xor xor_eq "
    "assert errno lamina linux main nullptr_t sdk std stderr stdin stdout unix ";

// True if a namespace with that name may clash with a C++ keyword, with a type of the C library
// (they end in _t) or one of its functions, such as exp or index, or with the SDK's function of an
// op.
bool is_taken(const std::string& name) {
  return kTaken.find(" " + name + " ") != kTaken.npos || name.ends_with("_t") ||
         dlsym(RTLD_DEFAULT, name.c_str()) != nullptr || ops::find(name) != nullptr;
}

// The folder of the plugins that are installed with this program.
fs::path installed_plugins() {
  std::error_code error;
  return fs::weakly_canonical(program_path().parent_path().parent_path() / "lib/lamina/plugins",
                              error);
}

// The name becomes a namespace, a target and a folder.
void check_name(const std::string& name) {
  const auto fail = [&](std::string what) {
    throw UserError(
        ExitCode::usage,
        {"plugin new", fmt::format("'{}' {}", name, what), {"choose a name like 'my_family'"}});
  };
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (name.empty() || !plain || !(name[0] >= 'a' && name[0] <= 'z') || name.size() > kMaxPluginName)
    fail(fmt::format(
        "is not a valid plugin name; it must be lower-case letters, digits and '_', at most {}, "
        "beginning with a letter",
        kMaxPluginName));
  if (name.find("__") != name.npos) fail("has two underscores in a row; C++ reserves such names");
  if (is_taken(name))
    fail("is a reserved name in C++, its library or lamina, and cannot be a namespace");
}

// Refuses the name of a family that is installed with lamina: two plugins cannot have one family.
void check_family(const std::string& name, const Globals& globals) {
  for (const registry::PluginFile& plugin : plugin_catalog(globals).plugins())
    for (const registry::FamilyNames& family : plugin.manifest.families)
      if (family.is_called(name) && plugin.path.parent_path() == installed_plugins())
        throw UserError(
            ExitCode::usage,
            {"plugin new",
             fmt::format("'{}' is a family of lamina's plugin {}, and a family has one plugin",
                         name, plugin.path.filename().string()),
             {fmt::format("choose another name, eg: my_{}; --from starts from the sources of one "
                          "of lamina's plugins",
                          name)}});
}

// The prefix for CMAKE_PREFIX_PATH: the program's own, if it also has the headers for plugins.
std::string cmake_prefix() {
  const fs::path prefix = program_path().parent_path().parent_path();
  std::error_code error;
  return fs::exists(prefix / "lib/cmake/lamina_plugin_api", error) ? shell_word(prefix.string())
                                                                   : "<where lamina is installed>";
}

int make(const Arguments& arguments, const Device&) {
  const std::string& name = arguments.positionals[0];
  check_name(name);
  check_family(name, arguments.globals);
  const fs::path to = fs::path(arguments.text("dir")) / name;
  std::error_code error;
  if (fs::exists(fs::symlink_status(to, error)))
    throw UserError(ExitCode::usage, {to.string(),
                                      "exists already and is not overwritten",
                                      {"choose another name, or another folder with --dir"}});
  if (!fs::create_directories(to, error))
    throw UserError(ExitCode::checkpoint,
                    {to.string(),
                     fmt::format("cannot be created: {}", system_error_text(error.value())),
                     {"choose another folder with --dir"}});
  const std::string from = arguments.has("from") ? arguments.text("from") : "";
  bool keeps_names = false;
  try {
    keeps_names = copy_plugin_sources(from, to, name);
  } catch (...) {
    fs::remove_all(to, error);
    throw;
  }
  const fs::path build = to / "build";
  const std::string names =
      keeps_names ? fmt::format(
                        "  The copy still has the published names of {}: change hf_model_types "
                        "and\n  hf_architectures once it computes another model.\n",
                        from)
                  : "";
  print(fmt::format(
      "{0}\n"
      "{1}"
      "  model.cc has the equations. To build, check and look at it:\n"
      "    cmake -S {2} -B {3} -DCMAKE_PREFIX_PATH={4}\n"
      "    cmake --build {3} && ctest --test-dir {3} --output-on-failure\n"
      "    lamina plugin inspect {5}\n",
      to.string(), names, shell_word(to.string()), shell_word(build.string()), cmake_prefix(),
      shell_word((build / "lib/lamina/plugins" / (name + ".lamina.so")).string())));
  return 0;
}

}  // namespace

Command plugin_new_command() {
  return {.name = "plugin new",
          .summary = "starts a plugin from the template",
          .details =
              "Creates the folder DIR/NAME with a complete decoder that builds unchanged, a small "
              "model, and a test with `lamina plugin check`.",
          .options = {{.key = {.name = "dir",
                               .type = Type::string,
                               .preset = Value("."),
                               .doc = "The parent folder.",
                               .path = true},
                       .value = "DIR"},
                      text_option("from", 0, "PLUGIN",
                                  "Start from the sources of one of lamina's plugins or examples "
                                  "in C++ instead, eg: griffin, a hybrid of recurrences and "
                                  "attention. Its first family gets the name NAME, others "
                                  "NAME_<family>; the published names stay.")},
          .positionals = {{.name = "NAME", .doc = "The family's name, eg: my_family."}},
          .examples = {"lamina plugin new my_family", "lamina plugin new my_family --dir models",
                       "lamina plugin new my_family --from griffin"},
          .run = make};
}

}  // namespace lamina::cli
