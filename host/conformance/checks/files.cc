// FIL: the file, before any code of it runs.
#include "conformance/checks/checks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "conformance/check.h"
#include "core/error.h"
#include "registry/discovery.h"
#include "registry/elf_file.h"
#include "registry/manifest.h"

namespace lamina::conformance {
namespace {

// The compiler's own, which does nothing.
constexpr int kMostConstructors = 1;

// Functions of the C and C++ libraries that plugins must not call, and the alternative; C-1, C-4
// and C-10. Not those that C++ headers pull in.
struct Forbidden {
  std::string_view instead;
  std::vector<std::string_view> symbols;
};

const std::vector<Forbidden>& forbidden() {
  static const std::vector<Forbidden> kAll = {
      {"return a status, and leave the rest to the host",
       {"abort", "exit", "_exit", "_Exit", "quick_exit", "longjmp", "_longjmp", "siglongjmp",
        "__longjmp_chk", "pthread_exit", "thrd_exit", "dlopen", "dlmopen", "syscall"}},
      {"plugins must not start processes",
       {"fork",   "vfork",       "_Fork",        "clone",   "clone3",   "daemon", "system",
        "popen",  "posix_spawn", "posix_spawnp", "execl",   "execlp",   "execle", "execv",
        "execvp", "execvpe",     "execve",       "fexecve", "execveat", "wordexp"}},
      {"plugins must not start threads; kernels share their work with parallel_for",
       {"pthread_create", "thrd_create", "timer_create",
        "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE"}},
      {"signals belong to the program",
       {"sigaction",   "signal",           "__sysv_signal", "bsd_signal",
        "sysv_signal", "sigset",           "sigignore",     "raise",
        "kill",        "killpg",           "tgkill",        "pthread_kill",
        "sigqueue",    "pthread_sigqueue", "sigprocmask",   "pthread_sigmask",
        "sigaltstack", "sigsuspend",       "alarm",         "ualarm",
        "setitimer"}},
      {"the working directory belongs to the program",
       {"chdir", "fchdir", "chroot", "_ZNSt10filesystem12current_pathERKNS_7__cxx114pathE",
        "_ZNSt10filesystem12current_pathERKNS_7__cxx114pathERSt10error_code"}},
      {"the locale belongs to the program", {"setlocale", "uselocale", "_ZNSt6locale6globalERKS_"}},
      {"the environment belongs to the program; a plugin reads only its config",
       {"setenv", "unsetenv", "putenv", "clearenv"}},
      {"floating-point rounding and exceptions belong to the program",
       {"fesetround", "fesetenv", "feupdateenv", "feholdexcept", "fesetmode", "feenableexcept",
        "fedisableexcept"}},
      {"limits and rights of the process belong to the program",
       {"umask", "setrlimit", "setrlimit64", "prlimit", "prlimit64", "prctl", "ptrace", "setsid",
        "setpgid", "setpgrp", "setuid", "setgid", "nice", "setpriority", "sched_setaffinity",
        "pthread_setaffinity_np", "mlockall", "personality"}},
  };
  return kAll;
}

// "" if a plugin may call it.
std::string_view instead_of(std::string_view symbol) {
  for (const Forbidden& group : forbidden())
    if (std::ranges::find(group.symbols, symbol) != group.symbols.end()) return group.instead;
  return "";
}

bool is_sanitized(const registry::ElfFile& file) {
  return std::ranges::any_of(file.imports, [](const std::string& symbol) {
    return symbol == "__asan_init" || symbol == "__tsan_init";
  });
}

// Calls by a C++ runtime that is linked into the plugin: it ends the process for an uncaught
// exception, and writes numbers in the locale C. They cannot be distinguished from the plugin's own
// calls.
constexpr auto kOfRuntime =
    std::to_array<std::string_view>({"abort", "uselocale", "setlocale", "syscall"});

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

// Symbol versions of the oldest supported system: Debian 12, with GCC 12.
constexpr std::pair<std::string_view, std::string_view> kNewestVersions[] = {
    {"GLIBC_", "2.36"}, {"GLIBCXX_", "3.4.30"}, {"CXXABI_", "1.3.13"}, {"GCC_", "12.0.0"}};

// True if version "2.9" is after "2.36", comparing numbers part by part. Others, like "PRIVATE" or
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
            "needs {}, but the oldest supported system has {}{}; build it on Debian 12, "
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
  const bool runtime_inside = has_runtime_inside(elf);
  for (const std::string& symbol : elf.imports) {
    if (runtime_inside && std::ranges::find(kOfRuntime, symbol) != kOfRuntime.end()) continue;
    if (const std::string_view instead = instead_of(symbol); !instead.empty())
      problems.push_back(fmt::format("calls '{}'; {}", symbol, instead));
    if (symbol.starts_with("__cxa_thread_atexit"))
      problems.push_back("has thread-local objects with destructors, which keep it mapped");
  }
  if (!is_sanitized(elf)) find_newer_versions(elf, problems);
  if (elf.num_constructors > kMostConstructors && !is_sanitized(elf))
    problems.push_back(
        fmt::format("runs {} functions when it is loaded; make global "
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
