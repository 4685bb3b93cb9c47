// LOD: what loading the library does to the process, and how often it may be started.
#include <dirent.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>
#include <vector>

#include "conformance/check.h"
#include "conformance/groups.h"
#include "conformance/raw_plugin.h"
#include "conformance/subject.h"
#include "core/printable.h"
#include "registry/elf_file.h"

namespace lamina::conformance {
namespace {

constexpr double kMostProcessorSeconds = 0.1, kMostSeconds = 1;

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Takes what is written to a standard descriptor.
class Capture {
 public:
  explicit Capture(int descriptor) : descriptor_(descriptor) {
    kept_ = memfd_create("output of a plugin", MFD_CLOEXEC);
    outside_ = dup(descriptor);
    if (kept_ < 0 || outside_ < 0 || dup2(kept_, descriptor) < 0)
      fail("the system gives no file for its output");
  }
  ~Capture() {
    dup2(outside_, descriptor_);
    close(outside_);
    close(kept_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::string text() const {
    std::fflush(nullptr);
    std::array<char, 64> bytes{};
    const ssize_t count = pread(kept_, bytes.data(), bytes.size(), 0);
    return count > 0 ? printable(std::string(bytes.data(), static_cast<std::size_t>(count)), 64)
                     : std::string();
  }

 private:
  int descriptor_, kept_, outside_;
};

int entries_of(const char* folder) {
  int count = 0;
  if (DIR* all = opendir(folder)) {
    while (readdir(all)) ++count;
    closedir(all);
  }
  return count;
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

std::vector<void (*)(int)> signal_handlers() {
  std::vector<void (*)(int)> out;
  for (int signal = 1; signal < 32; ++signal) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    out.push_back(action.sa_handler);
  }
  return out;
}

// What of the process a plugin leaves alone while it is loaded.
struct Process {
  int threads = entries_of("/proc/self/task");
  int descriptors = entries_of("/proc/self/fd");
  std::vector<void (*)(int)> handlers = signal_handlers();
  std::vector<std::string> libraries = mapped_libraries();
};

void compare(const Process& before, const Process& after, const std::filesystem::path& file) {
  if (after.threads > before.threads)
    fail("starts {} threads when it is loaded; it may start none", after.threads - before.threads);
  if (after.descriptors > before.descriptors)
    fail("leaves {} files open when it is loaded", after.descriptors - before.descriptors);
  if (after.handlers != before.handlers)
    fail("changes what the process does with a signal; signals are the host's");
  const std::size_t allowed = 1 + registry::read_elf(file).needed.size();
  if (after.libraries.size() > before.libraries.size() + allowed)
    fail("loads {} libraries; it needs {}", after.libraries.size() - before.libraries.size() - 1,
         allowed - 1);
}

}  // namespace

void check_load_is_quiet(const PluginSubject& plugin) {
  const Process before;
  double processor = -seconds(CLOCK_PROCESS_CPUTIME_ID), wall = -seconds(CLOCK_MONOTONIC);
  std::optional<Capture> out(STDOUT_FILENO), err(STDERR_FILENO);
  // Never unloaded: what it started may be running.
  const auto* raw = new RawPlugin(plugin.file());
  raw->init(plain_host());
  processor += seconds(CLOCK_PROCESS_CPUTIME_ID);
  wall += seconds(CLOCK_MONOTONIC);
  const std::string text = out->text() + err->text();
  out.reset();
  err.reset();
  const Process after;
  compare(before, after, plugin.file());
  if (!text.empty()) fail("writes \"{}\" when it is loaded; use the host's log", text);
  if (processor > kMostProcessorSeconds || wall > kMostSeconds)
    fail("takes {:.2f} s of processor time and {:.2f} s to load; {} s are allowed", processor, wall,
         kMostProcessorSeconds);
}

void check_builds_are_quiet(const FamilySubject& subject) {
  const Capture out(STDOUT_FILENO);
  for (const SmallModel& small : subject.models()) subject.open(small);
  if (const std::string text = out.text(); !text.empty())
    fail("writes \"{}\" when it describes a model; use the host's log", text);
}

// Between init and deinit: at no other time may the interface be asked for.
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
      fail("answers to the interface id \"{}\", which nobody has defined; null is the answer",
           printable(id));
  raw.deinit();
}

}  // namespace lamina::conformance
