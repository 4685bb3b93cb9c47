// LOD: effects of loading the library on the process, and repeated initialisation.
#include <link.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <vector>

#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/process/capture.h"
#include "conformance/process/descendants.h"
#include "conformance/process/raw_plugin.h"
#include "conformance/process/used_memory.h"
#include "conformance/subjects/subject.h"
#include "core/printable.h"
#include "registry/elf_file.h"
#include "registry/process_guard.h"

namespace lamina::conformance {
namespace {

constexpr double kMostProcessorSeconds = 0.1, kMostSeconds = 1;

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<std::string> mapped_libraries() {
  std::vector<std::string> out;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        static_cast<std::vector<std::string>*>(to)->emplace_back(info->dlpi_name);
        return 0;
      },
      &out);
  return out;
}

// Properties of the process that loading a plugin must not change.
struct Process {
  registry::ProcessCounts counts;
  std::vector<std::string> libraries = mapped_libraries();
};

// Checks for children, threads and files left behind by functions of the plugin; `when` ends the
// sentence: "when it is loaded".
void require_nothing_left(const registry::ProcessCounts& before, std::string_view when) {
  const registry::ProcessCounts after;
  if (has_child_processes()) fail("starts a process {}; it must not start any (C-10)", when);
  if (after.threads > before.threads)
    fail("starts {} thread(s) {}; it must not start any (C-10)", after.threads - before.threads,
         when);
  if (after.descriptors > before.descriptors)
    fail("leaves {} file(s) open {} (C-10)", after.descriptors - before.descriptors, when);
}

void compare(const Process& before, const std::filesystem::path& file) {
  require_nothing_left(before.counts, "when it is loaded");
  const std::size_t libraries = mapped_libraries().size();
  const std::size_t allowed = 1 + registry::read_elf(file).needed.size();
  if (libraries > before.libraries.size() + allowed)
    fail("loads {} libraries; it needs {}", libraries - before.libraries.size() - 1, allowed - 1);
}

// Bytes that this process has written to files and other descriptors; nothing if the system does
// not report them.
std::optional<std::uint64_t> written_bytes() {
  std::ifstream in("/proc/self/io");
  std::string name;
  for (std::uint64_t count = 0; in >> name >> count;)
    if (name == "wchar:") return count;
  return std::nullopt;
}

void open_all(const FamilySubject& subject) {
  for (const SmallModel& small : subject.models()) subject.open(small);
}

// Opens the models again: memory that is needed once already exists, so memory kept now leaks each
// time.
void require_nothing_kept(const FamilySubject& subject) {
  constexpr std::size_t kTimes = 2;
  // Allowance per model: tables of the host grow a little with every trace.
  constexpr std::size_t kMostBytes = 64 << 10;
  const std::size_t before = used_bytes();
  const Capture out(STDOUT_FILENO), err(STDERR_FILENO);
  const auto written_before = written_bytes();
  for (std::size_t time = 0; time < kTimes; ++time) open_all(subject);
  const std::size_t said = out.num_bytes() + err.num_bytes();
  const auto written_after = written_bytes();
  const std::size_t after = used_bytes(), models = kTimes * subject.models().size();
  if (written_before && *written_after > *written_before + said)
    fail("writes {} bytes to files when it describes a model; it must not write any (C-10)",
         (*written_after - *written_before - said) / models);
  if (after > before + models * kMostBytes)
    fail("leaks {} bytes each time that a model is described; it must free its memory (C-10)",
         (after - before) / models);
}

}  // namespace

void check_load_is_quiet(const PluginSubject& plugin) {
  const Process before;
  const registry::ProcessGuard guard;
  double processor = -seconds(CLOCK_PROCESS_CPUTIME_ID), wall = -seconds(CLOCK_MONOTONIC);
  std::optional<Capture> out(STDOUT_FILENO), err(STDERR_FILENO);
  // Never unloaded: code that it started may be running.
  const auto* raw = new RawPlugin(plugin.file());
  raw->init(plain_host());
  processor += seconds(CLOCK_PROCESS_CPUTIME_ID);
  wall += seconds(CLOCK_MONOTONIC);
  const std::string text = out->text() + err->text();
  out.reset();
  err.reset();
  if (const std::string change = guard.restore(); !change.empty())
    fail("{} when it is loaded; {} (C-10)", change, registry::kLeaveTheProcess);
  compare(before, plugin.file());
  if (!text.empty()) fail("writes \"{}\" when it is loaded; use the host's log", text);
  if (processor > kMostProcessorSeconds || wall > kMostSeconds)
    fail("takes {:.2f} s of processor time and {:.2f} s to load; {} s are allowed", processor, wall,
         kMostProcessorSeconds);
}

void check_builds_are_quiet(const FamilySubject& subject) {
  const registry::ProcessCounts before;
  {
    const Capture out(STDOUT_FILENO);
    open_all(subject);
    if (const std::string text = out.text(); !text.empty())
      fail("writes \"{}\" when it describes a model; use the host's log", text);
  }
  require_nothing_left(before, "when it describes a model");
  require_nothing_kept(subject);
}

// Between init and deinit: at other times the interface must not be requested.
void check_init_nests(const PluginSubject& plugin) {
  const RawPlugin raw(plugin.file());
  const auto expect = [&](const char* when) {
    if (raw.families() == nullptr)
      fail("get_interface(\"{}\") is null {}", LAMINA_FAMILIES_ID, when);
  };
  for (int time = 1; time <= 3; ++time) {
    raw.init(plain_host());
    expect(time == 1 ? "after init" : "after it was started again");
    raw.init(plain_host());
    expect("after a second init");
    raw.deinit();
    expect("after the first deinit of two");
    raw.deinit();
  }
}

void check_unknown_interfaces(const PluginSubject& plugin) {
  const RawPlugin raw(plugin.file());
  raw.init(plain_host());
  constexpr auto kIds = std::to_array<std::string_view>(
      {"", "x", "lamina", "lamina.families", "lamina.families/", "lamina.families/2",
       "lamina.families/10", "lamina.families/1 ", "Lamina.families/1", "lamina.custom_op/1",
       std::string_view("lamina.families/1\0", 18)});
  for (const std::string_view id : kIds)
    if (raw.interface(id) != nullptr)
      fail("returns an interface for the undefined id \"{}\"; expected null", printable(id));
  raw.deinit();
}

}  // namespace lamina::conformance
