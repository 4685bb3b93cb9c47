// lamina plugin new: a copy of the template under a name of the user's.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "cli/commands.h"
#include "core/program_path.h"
#include "core/read_file.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemplateName = "my_family";
constexpr std::string_view kTemplateClass = "MyFamily";

// Keywords of C++20, alternative tokens and names with a meaning in some place; then names that
// headers, compilers or lamina have for something else.
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

// Whether a namespace of that name may clash: with a word of C++, with a type of the C library
// (they end in _t), or with one of its functions, such as exp or index.
bool is_taken(const std::string& name) {
  return kTaken.find(" " + name + " ") != kTaken.npos || name.ends_with("_t") ||
         dlsym(RTLD_DEFAULT, name.c_str()) != nullptr;
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
  if (name.empty() || !plain || !(name[0] >= 'a' && name[0] <= 'z') || name.size() > 64)
    fail(
        "is not a name for a plugin; it must be lower-case letters, digits and '_', at most 64, "
        "beginning with a letter");
  if (name.find("__") != name.npos) fail("has two underscores in a row; C++ reserves such names");
  if (is_taken(name)) fail("is a name of C++, its library or lamina; it becomes a namespace");
}

// "my_family" as "MyFamily".
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

fs::path template_folder() {
  std::error_code error;
  const fs::path folder =
      program_path().parent_path().parent_path() / "share/lamina/plugin/template";
  if (!fs::is_directory(folder, error))
    throw UserError(ExitCode::usage, {folder.string(),
                                      "the plugin template is missing",
                                      {"install lamina with its component plugin_api"}});
  return folder;
}

void copy_template(const fs::path& from, const fs::path& to, const std::string& name) {
  for (const auto& item : fs::directory_iterator(from)) {
    if (!item.is_regular_file()) continue;
    std::string text = read_file(item.path().string(), ExitCode::usage);
    replace_all(text, kTemplateName, name);
    replace_all(text, kTemplateClass, class_name(name));
    std::ofstream out(to / item.path().filename(), std::ios::binary);
    out << text;
    out.close();
    if (!out)
      throw UserError(ExitCode::checkpoint, {(to / item.path().filename()).string(),
                                             "cannot be written",
                                             {"check the disk and the folder's permissions"}});
  }
}

int make(const Arguments& arguments, const Machine&) {
  const std::string& name = arguments.positionals[0];
  check_name(name);
  const fs::path from = template_folder();
  const fs::path to = fs::path(arguments.text("dir")) / name;
  std::error_code error;
  if (fs::exists(fs::symlink_status(to, error)))
    throw UserError(ExitCode::usage, {to.string(),
                                      "exists already; nothing is overwritten",
                                      {"choose another name, or another folder with --dir"}});
  if (!fs::create_directories(to, error))
    throw UserError(ExitCode::usage,
                    {to.string(),
                     fmt::format("cannot be made: {}", system_error_text(error.value())),
                     {"choose another folder with --dir"}});
  try {
    copy_template(from, to, name);
  } catch (...) {
    fs::remove_all(to, error);
    throw;
  }
  print(
      fmt::format("{0}\n"
                  "  model.cc holds the equations. To build and look at it:\n"
                  "    cmake -S {0} -B {0}/build -DCMAKE_PREFIX_PATH=<where lamina is installed>\n"
                  "    cmake --build {0}/build\n"
                  "    lamina plugin inspect {0}/build/lib/lamina/plugins/{1}.lamina.so\n",
                  to.string(), name));
  return 0;
}

}  // namespace

Command plugin_new_command() {
  return {.name = "plugin new",
          .summary = "starts a plugin from the template",
          .details = "Makes the folder DIR/NAME with a complete decoder that builds as it is.",
          .options = {{.key = {.name = "dir",
                               .type = Type::string,
                               .preset = Value("."),
                               .doc = "The folder to make it in."},
                       .value = "DIR"}},
          .positionals = {{.name = "NAME", .doc = "The family's name, eg: my_family."}},
          .examples = {"lamina plugin new my_family", "lamina plugin new my_family --dir models"},
          .run = make};
}

}  // namespace lamina::cli
