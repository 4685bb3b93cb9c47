// FIL: the file, before anything of it is run.
#include "conformance/groups.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "conformance/check.h"
#include "core/error.h"
#include "registry/discovery.h"
#include "registry/elf_file.h"
#include "registry/manifest.h"

namespace lamina::conformance {
namespace {

// The compiler's own, which does nothing.
constexpr int kMostConstructors = 1;

// What ends the process, starts another or a thread, or takes over its signals; C-1 and C-4.
constexpr auto kForbidden = std::to_array<std::string_view>(
    {"abort",          "exit",      "_exit",  "_Exit", "quick_exit", "dlopen",   "dlmopen",
     "system",         "popen",     "fork",   "vfork", "execve",     "execvp",   "posix_spawn",
     "pthread_create", "sigaction", "signal", "raise", "longjmp",    "_longjmp", "siglongjmp"});

bool is_sanitized(const registry::ElfFile& file) {
  return std::ranges::any_of(file.imports, [](const std::string& symbol) {
    return symbol == "__asan_init" || symbol == "__tsan_init";
  });
}

// A C++ runtime that is linked into the plugin ends the process where an exception meets no catch;
// nothing tells its call of abort from one of the plugin's own.
bool has_runtime_inside(const registry::ElfFile& file) {
  const auto is_shared_runtime = [](const std::string& library) {
    return library.starts_with("libstdc++.so") || library.starts_with("libc++.so");
  };
  const auto unwinds = [](const std::string& symbol) {
    return symbol.starts_with("_Unwind_") || symbol == "dl_iterate_phdr";
  };
  return std::ranges::none_of(file.needed, is_shared_runtime) &&
         std::ranges::any_of(file.imports, unwinds);
}

// Versions of symbols that the oldest system with hosts has: Debian 12, with GCC 12.
constexpr std::pair<std::string_view, std::string_view> kNewestVersions[] = {
    {"GLIBC_", "2.36"}, {"GLIBCXX_", "3.4.30"}, {"CXXABI_", "1.3.13"}, {"GCC_", "12.0.0"}};

// Whether version "2.9" is after "2.36": of numbers, part by part. Others, like "PRIVATE" or
// "ABI_DT_RELR", are after none.
bool is_after(std::string_view version, std::string_view newest) {
  const auto next = [](std::string_view& of) {
    int number = -1;
    const auto [end, error] = std::from_chars(of.data(), of.data() + of.size(), number);
    of.remove_prefix(static_cast<std::size_t>(end - of.data()));
    if (of.starts_with('.')) of.remove_prefix(1);
    return error == std::errc() ? number : -1;
  };
  while (!version.empty() || !newest.empty()) {
    const int a = next(version), b = next(newest);
    if (a != b || a < 0) return a > b;
  }
  return false;
}

void find_newer_versions(const registry::ElfFile& file, std::vector<std::string>& problems) {
  for (const std::string& needed : file.versions)
    for (const auto& [name, newest] : kNewestVersions)
      if (needed.starts_with(name) &&
          is_after(std::string_view(needed).substr(name.size()), newest))
        problems.push_back(fmt::format(
            "needs {}, and systems with hosts have {}{} at least; build it on Debian 12, "
            "or with the C++ runtime inside",
            needed, name, newest));
}

void raise(const std::vector<std::string>& problems) {
  if (!problems.empty()) fail("{}", fmt::join(problems, "; "));
}

}  // namespace

void check_elf(const std::filesystem::path& file) {
  if (!file.string().ends_with(registry::kPluginSuffix))
    fail("its name does not end in {}", registry::kPluginSuffix);
  raise(registry::symbol_problems(registry::read_elf(file)));
}

void check_loading(const std::filesystem::path& file) {
  const registry::ElfFile elf = registry::read_elf(file);
  std::vector<std::string> problems = registry::loading_problems(elf);
  for (const std::string& symbol : elf.imports) {
    if (symbol == "abort" && has_runtime_inside(elf)) continue;
    if (std::ranges::find(kForbidden, symbol) != kForbidden.end())
      problems.push_back(
          fmt::format("calls '{}'; return a status, and leave the rest to the host", symbol));
    if (symbol.starts_with("__cxa_thread_atexit"))
      problems.push_back("has thread-local objects with destructors, which keep it mapped");
  }
  if (!is_sanitized(elf)) find_newer_versions(elf, problems);
  if (elf.num_constructors > kMostConstructors && !is_sanitized(elf))
    problems.push_back(
        fmt::format("runs {} functions of its own when it is loaded; make global "
                    "objects constants",
                    elf.num_constructors - kMostConstructors));
  raise(problems);
}

void check_manifest(const std::filesystem::path& file) {
  const registry::ElfFile elf = registry::read_elf(file);
  const registry::Manifest manifest = registry::parse_manifest(elf.manifest, file.string());
  std::vector<std::string> names;
  for (const registry::FamilyNames& family : manifest.families) {
    if (family.doc.empty())
      fail("its manifest has no doc line for family '{}'; lists show it", family.name);
    names.push_back(family.name);
    names.insert(names.end(), family.aliases.begin(), family.aliases.end());
  }
  if (names.empty()) fail("its manifest lists no family");
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    fail("its manifest has the name '{}' twice", *twice);
}

}  // namespace lamina::conformance
