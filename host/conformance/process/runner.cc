#include "conformance/process/runner.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "conformance/process/child.h"
#include "conformance/process/descendants.h"
#include "conformance/process/run_check.h"
#include "conformance/result_json.h"
#include "core/error.h"
#include "core/printable.h"
#include "registry/elf_file.h"

namespace lamina::conformance {
namespace {

constexpr std::size_t kWorkers = 2;
// Processor time per family of the plugin.
constexpr double kQuickSeconds = 10, kFullSeconds = 60;
// Wall time in multiples of processor time, as other programs may run.
constexpr double kPatience = 4;
// Wall time of a process that does nothing. PluginCall names the plugin's function after 5 s.
constexpr double kQuickIdleSeconds = 7, kFullIdleSeconds = 15;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlower = 20;
#else
constexpr double kSlower = 1;
#endif

// The last lines of a process's output, joined to one.
std::string last_words(const std::string& text) {
  constexpr std::size_t kMost = 600;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) out += (out.empty() ? "" : "; ") + text.substr(at, end - at);
    at = end + 1;
  }
  return out.size() > kMost ? "..." + out.substr(out.size() - kMost) : out;
}

// The number of families for the time limit; 1 if the file does not list them.
double num_families(const PluginSubject& plugin) {
  if (!plugin.settings().family.empty()) return 1;
  try {
    const registry::ElfFile elf = registry::read_elf(plugin.file());
    return static_cast<double>(registry::parse_manifest(elf.manifest, elf.path).families.size());
  } catch (const PluginError&) {
    return 1;
  }
}

// The plugin function in which a process has waited for seconds, from PluginCall's message: "build
// of block 'layer'". Empty without a message.
std::string stalled_function(const std::string& err) {
  constexpr std::string_view kBegin = ": its ", kEnd = " has not returned for ";
  const std::size_t end = err.rfind(kEnd);
  if (end == err.npos) return "";
  const std::size_t begin = err.rfind(kBegin, end);
  if (begin == err.npos) return "";
  const std::size_t first = begin + kBegin.size();
  return printable(err.substr(first, end - first));
}

class Runner {
 public:
  Runner(const PluginSubject& plugin, const std::filesystem::path& program)
      : plugin_(plugin), program_(program) {
    const bool quick = plugin.settings().level == Level::quick;
    const double by_level = (quick ? kQuickSeconds : kFullSeconds) * kSlower;
    const double seconds = plugin.settings().seconds;
    options_.processor_seconds = (seconds > 0 ? seconds : by_level) * num_families(plugin);
    options_.idle_seconds = quick ? kQuickIdleSeconds : kFullIdleSeconds;
    options_.seconds = options_.processor_seconds * kPatience;
    // The driver of a GPU reserves addresses for the memory of all GPUs and of the machine.
    options_.limit_memory = plugin.compute().backend->reaches(MemoryKind::host);
  }

  // [any thread]
  Result run(const Check& check) {
    if (!check.cannot.empty()) return run_check(check, plugin_);
    if (const std::string function = stalled(); check.of_family && !function.empty())
      return {.check = &check,
              .outcome = Outcome::skip,
              .text = fmt::format("its {} does not return, see an earlier check", function),
              .blocked = true};
    Result out = run_once(check, options_);
    if (check.again == Again::no || out.outcome != Outcome::pass) return out;
    ChildOptions other = options_;
    other.elsewhere = check.again == Again::other_process;
    other.hostile = check.again == Again::hostile;
    const std::string_view where = other.hostile
                                       ? "without HOME, in another language and on a small stack"
                                       : "in another process, elsewhere in memory";
    Result again = run_once(check, other);
    again.seconds += out.seconds;
    if (again.outcome != Outcome::pass) {
      again.text = fmt::format("{}: {}", where, again.text);
      return again;
    }
    if (again.digest != out.digest) {
      again.outcome = Outcome::fail;
      again.text = fmt::format("the graphs of its models differ {}", where);
    }
    return again;
  }

 private:
  Result run_once(const Check& check, const ChildOptions& options) {
    const ChildEnd end = run_child(program_, replay_words(check, plugin_), options);
    if (end.limit == Limit::none)
      if (std::optional<Result> read = read_result(end.out, check)) return std::move(*read);
    Result out{.check = &check,
               .outcome = end.limit == Limit::none ? Outcome::crash : Outcome::timeout};
    out.text = end.limit == Limit::none ? "the process " + end.how() : text_of(end.limit);
    if (const std::string words = last_words(end.err); !words.empty()) out.text += "; " + words;
    if (end.limit != Limit::none) {
      const std::lock_guard lock(mutex_);
      if (stalled_.empty()) stalled_ = stalled_function(end.err);
      // Checks never wait: the plugin does, even if it has closed standard error.
      if (stalled_.empty() && end.limit == Limit::idle) stalled_ = "code";
    }
    return out;
  }

  std::string text_of(Limit limit) const {
    if (limit == Limit::idle)
      return fmt::format("waited for {:.0f} s without using the processor", options_.idle_seconds);
    if (limit == Limit::clock) return fmt::format("took more than {:.0f} s", options_.seconds);
    return fmt::format("took more than {:.0f} s of processor time", options_.processor_seconds);
  }

  std::string stalled() const {
    const std::lock_guard lock(mutex_);
    return stalled_;
  }

  const PluginSubject& plugin_;
  const std::filesystem::path& program_;
  ChildOptions options_;
  mutable std::mutex mutex_;
  std::string stalled_;  // the function in which a check waited in vain
};

// True if a host would load it, so that there is something to run.
bool is_loadable(const std::filesystem::path& file) {
  try {
    const registry::ElfFile elf = registry::read_elf(file);
    registry::parse_manifest(elf.manifest, elf.path);
    registry::check_file_rules(elf);
    return true;
  } catch (const PluginError&) {
    return false;
  }
}

// Runs `rest` with a few workers; `done` is called in order.
void run_by_workers(Runner& runner, std::span<const Check* const> rest, const CheckWatcher& watch,
                    std::vector<Result>& to) {
  std::mutex mutex;
  std::condition_variable ready;
  std::vector<std::optional<Result>> results(rest.size());
  std::exception_ptr thrown;
  std::size_t next = 0;
  const auto work = [&] {
    for (;;) {
      std::size_t mine;
      {
        const std::lock_guard lock(mutex);
        if (next == rest.size() || thrown) return;
        mine = next++;
      }
      try {
        Result result = runner.run(*rest[mine]);
        const std::lock_guard lock(mutex);
        results[mine] = std::move(result);
      } catch (...) {
        const std::lock_guard lock(mutex);
        thrown = std::current_exception();
      }
      ready.notify_all();
    }
  };
  std::vector<std::jthread> workers;
  for (std::size_t i = 0; i < std::min(kWorkers, rest.size()); ++i) workers.emplace_back(work);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    watch(*rest[i], nullptr);
    std::unique_lock lock(mutex);
    ready.wait(lock, [&] { return results[i] || thrown; });
    if (thrown) break;
    Result result = std::move(*results[i]);
    lock.unlock();
    to.push_back(result);
    watch(*rest[i], &to.back());
  }
  workers.clear();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace

std::vector<std::string> replay_words(const Check& check, const PluginSubject& plugin) {
  const Settings& settings = plugin.settings();
  std::vector<std::string> out = {"plugin",
                                  "check",
                                  plugin.file().string(),
                                  "--only",
                                  std::string(check.id),
                                  "--here",
                                  "--json",
                                  "--level",
                                  std::string(name(settings.level)),
                                  "--seed",
                                  std::to_string(settings.seed),
                                  "--threads",
                                  "1"};
  const auto add = [&](const char* option, const std::string& value) {
    out.push_back(option);
    out.push_back(value);
  };
  if (!settings.family.empty()) add("--family", settings.family);
  if (!settings.device.empty()) add("--device", settings.device);
  for (const std::filesystem::path& model : settings.models) add("--model", model.string());
  for (const std::filesystem::path& golden : settings.goldens) add("--golden", golden.string());
  return out;
}

std::vector<Result> run_checks(std::span<const Check* const> checks, const PluginSubject& plugin,
                               const std::filesystem::path& program, const CheckWatcher& watch) {
  std::vector<Result> out;
  std::vector<const Check*> rest;
  for (const Check* check : checks) {
    if (!check->of_file) {
      rest.push_back(check);
      continue;
    }
    watch(*check, nullptr);
    out.push_back(run_check(*check, plugin));
    watch(*check, &out.back());
  }
  if (is_loadable(plugin.file())) {
    out.reserve(checks.size());
    const EndsChecksWithKit ends_checks;
    Runner runner(plugin, program);
    run_by_workers(runner, rest, watch, out);
    return out;
  }
  for (const Check* check : rest)
    out.push_back({.check = check,
                   .outcome = Outcome::skip,
                   .text = "the file is refused; see the checks of the file",
                   .blocked = true});
  return out;
}

}  // namespace lamina::conformance
