// LIF, THR, PRF: loading and unloading, twins, threads, and the time of a trace.
#include <time.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/process/raw_plugin.h"
#include "conformance/process/scratch_folder.h"
#include "conformance/process/used_memory.h"
#include "conformance/subjects/decoration.h"
#include "conformance/subjects/fingerprint.h"
#include "conformance/subjects/subject.h"

namespace lamina::conformance {
namespace {

constexpr double kMostTraceSeconds = 0.1;
// Bytes that the loader itself may keep after a hundred loads.
constexpr std::size_t kMostKeptBytes = 64 << 10;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void load_and_unload(const std::filesystem::path& file) {
  RawPlugin raw(file);
  raw.init(plain_host());
  if (!raw.families()) fail("has no interface \"{}\" after init", LAMINA_FAMILIES_ID);
  raw.deinit();
  raw.close();
}

}  // namespace

void check_unloading(const PluginSubject& plugin) {
  {
    const RawPlugin raw(plugin.file());
    if (raw.entry().flags & LAMINA_PLUGIN_NEVER_UNLOAD) skip("it asks never to be unloaded");
  }
  if (RawPlugin::is_mapped(plugin.file()))
    fail("stays mapped when it is unloaded; thread-local or unique objects keep it");
  for (int time = 0; time < 10; ++time) load_and_unload(plugin.file());
  const std::size_t before = used_bytes();
  for (int time = 0; time < 100; ++time) load_and_unload(plugin.file());
  const std::size_t after = used_bytes();
  if (after > before + kMostKeptBytes)
    fail(
        "{} bytes are leaked per load and unload; deinit must free the memory of init "
        "made",
        (after - before) / 100);
  if (RawPlugin::is_mapped(plugin.file())) fail("stays mapped when it is unloaded");
}

void check_twins(const PluginSubject& plugin) {
  const ScratchFolder folder;
  const std::filesystem::path copy =
      std::filesystem::path(folder.path()) / ("twin_" + plugin.file().filename().string());
  std::filesystem::copy_file(plugin.file(), copy);
  const RawPlugin first(plugin.file());
  first.init(plain_host());
  const void* table = first.families();
  {
    const RawPlugin second(copy);
    second.init(plain_host());
    if (second.families() == table) fail("a copy of it under another name has the same tables");
    if (first.families() != table)
      fail("its tables move when a copy of it under another name is started");
    second.deinit();
  }
  if (first.families() != table)
    fail("its tables are gone when a copy of it under another name has ended");
  first.deinit();
}

void check_threads(const FamilySubject& subject) {
  constexpr std::size_t kThreads = 8;
  for (const SmallModel& small : subject.models()) {
    const std::uint64_t alone = fingerprint(subject.open(small));
    std::vector<std::uint64_t> found(kThreads);
    std::vector<std::string> refused(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        try {
          for (int time = 0; time < 4; ++time) found[i] = fingerprint(subject.open(small));
        } catch (const std::exception& thrown) {
          refused[i] = thrown.what();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < kThreads; ++i) {
      // It is accepted alone.
      if (!refused[i].empty())
        fail("model '{}' is refused when eight threads build it at once: {}", small.name,
             refused[i]);
      if (found[i] != alone)
        fail(
            "model '{}' differs when eight threads build it at once; functions of a family "
            "must not share mutable data",
            small.name);
    }
  }
}

void check_trace_time(const FamilySubject& subject) {
  std::map<std::string, double> least;  // by function: other programs run too
  const DecoratedFamily family(
      subject.source(), subject.family(),
      {.around = [&](std::string_view name, const std::function<lamina_status_t()>& run) {
        const double start = thread_seconds();
        const lamina_status_t status = run();
        const double took = thread_seconds() - start;
        const auto [at, fresh] = least.emplace(name, took);
        if (!fresh) at->second = std::min(at->second, took);
        return status;
      }});
  for (const SmallModel& small : subject.models())
    for (int time = 0; time < 3; ++time) subject.open(small, family.family());
  for (const auto& [name, took] : least)
    if (took > kMostTraceSeconds)
      fail("'{}' takes {:.2f} s; a program has several such calls, and the limit is {} s each",
           name, took, kMostTraceSeconds);
}

}  // namespace lamina::conformance
