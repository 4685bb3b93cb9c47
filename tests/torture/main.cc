// lamina_torture: exposes the program to faults of disks, kernels, users and other programs for a
// given time, and reports violations. scripts/torture builds and runs it.
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "support/paths.h"
#include "torture/campaign.h"
#include "torture/tiny_run.h"

namespace lamina::torture {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kHelp = R"(usage: lamina_torture [options]
  --minutes N      how long, divided among the kinds (10)
  --cases N        at most N cases of each kind
  --seed S         the first seed; case i of a kind has seed S + i (1)
  --only A,B       these kinds only
  --replay KIND:S  one case again; its files are kept
  --jobs N         cases at a time (the CPUs)
  --program FILE   the program to torture (that of this build)
  --list           the kinds
Exit code: 0 nothing found, 1 something found, 2 wrong usage, 3 the driver cannot work here.
)";

std::atomic<bool> interrupted{false};
extern "C" void on_stop(int) { interrupted = true; }

struct Options {
  double minutes = 10;
  std::uint64_t cases = ~std::uint64_t{0};
  std::uint64_t seed = 1;
  std::vector<std::string> only = {};
  std::string replay = {};
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  std::string program = LAMINA_BUILD_DIR "/bin/lamina";
  bool list = false;
};

// Cases with the same failure.
struct Finding {
  std::string what, detail, folder;
  std::uint64_t seed = 0;  // of the first
  std::uint64_t count = 0;
};

struct Tally {
  std::uint64_t tried = 0, failed = 0;
  std::string skipped = {};                      // the reason
  std::map<std::string, Finding> findings = {};  // by text without numbers
};

std::string without_digits(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c); });
  return text;
}

// Runs one case in a separate folder, which is kept only if it shows a new failure.
void attempt(const Place& place, const Kind& kind, std::uint64_t seed, const std::string& work,
             bool keep, Tally& tally, std::mutex& mutex) {
  Case c{place, fmt::format("{}/{}-{}", work, kind.name, seed), Random(kind.name, seed)};
  fs::remove_all(c.folder);
  fs::create_directories(c.folder);
  std::string what, detail, skipped;
  try {
    kind.attempt(c);
  } catch (const Failure& failure) {
    what = failure.what(), detail = failure.detail();
  } catch (const Skipped& reason) {
    skipped = reason.what();
  } catch (const std::exception& e) {
    what = fmt::format("the driver itself failed: {}", e.what());
  }
  std::string unwanted = keep ? "" : c.folder;
  std::lock_guard lock(mutex);
  tally.skipped = std::max(tally.skipped, skipped);
  if (skipped.empty()) ++tally.tried;
  if (!what.empty()) {
    ++tally.failed;
    Finding& finding = tally.findings[without_digits(what)];
    ++finding.count;
    // The lowest seed, so that the report does not depend on which job ended first.
    if (finding.count == 1 || seed < finding.seed) {
      if (!keep) unwanted = finding.folder;
      finding = {what, detail, c.folder, seed, finding.count};
    }
  }
  std::error_code ignored;
  if (!unwanted.empty()) fs::remove_all(unwanted, ignored);
}

Tally run_kind(const Place& place, const Kind& kind, const Options& options,
               const std::string& work, Clock::time_point until) {
  Tally tally;
  std::mutex mutex;
  std::atomic<std::uint64_t> next{0};
  std::vector<std::jthread> threads;
  for (unsigned job = 0; job < options.jobs; ++job)
    threads.emplace_back([&] {
      while (!interrupted) {
        const std::uint64_t i = next++;
        // At least one case of each kind, for every time limit.
        if (i >= options.cases || (i > 0 && Clock::now() >= until)) return;
        attempt(place, kind, options.seed + i, work, false, tally, mutex);
        std::lock_guard lock(mutex);
        if (!tally.skipped.empty()) return;
      }
    });
  threads.clear();
  return tally;
}

void print_findings(const Kind& kind, const Tally& tally) {
  for (const auto& [key, finding] : tally.findings) {
    fmt::print("\nFOUND {}: {}{}\n", kind.name, finding.what,
               finding.count > 1 ? fmt::format(" ({} cases)", finding.count) : "");
    for (std::size_t at = 0; at < finding.detail.size();) {
      const std::size_t end = std::min(finding.detail.find('\n', at), finding.detail.size());
      fmt::print("  | {}\n", finding.detail.substr(at, end - at));
      at = end + 1;
    }
    fmt::print("  files:  {}\n  replay: scripts/torture --replay {}:{}\n", finding.folder,
               kind.name, finding.seed);
  }
}

bool read_options(int argc, char** argv, Options& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--list") {
      out.list = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const std::string value = argv[++i];
    if (name == "--minutes") {
      out.minutes = std::stod(value);
    } else if (name == "--cases") {
      out.cases = std::stoull(value);
    } else if (name == "--seed") {
      out.seed = std::stoull(value);
    } else if (name == "--jobs") {
      out.jobs = std::max(1u, static_cast<unsigned>(std::stoul(value)));
    } else if (name == "--program") {
      out.program = fs::absolute(value).string();
    } else if (name == "--replay") {
      out.replay = value;
    } else if (name == "--only") {
      for (std::size_t at = 0; at <= value.size();) {
        const std::size_t end = std::min(value.find(',', at), value.size());
        out.only.push_back(value.substr(at, end - at));
        at = end + 1;
      }
    } else {
      return false;
    }
  }
  return true;
}

// The requested kinds. Throws std::invalid_argument for an unknown name.
std::vector<Kind> chosen_kinds(Options& options) {
  if (!options.replay.empty()) {
    const auto colon = options.replay.find(':');
    if (colon == std::string::npos) throw std::invalid_argument("--replay takes KIND:SEED");
    options.only = {options.replay.substr(0, colon)};
    options.seed = std::stoull(options.replay.substr(colon + 1));
  }
  std::vector<Kind> kinds = all_kinds();
  for (const std::string& name : options.only)
    if (std::ranges::find(kinds, name, &Kind::name) == kinds.end())
      throw std::invalid_argument(fmt::format("there is no kind '{}'; --list shows all", name));
  if (!options.only.empty())
    std::erase_if(kinds, [&](const Kind& kind) {
      return std::ranges::find(options.only, kind.name) == options.only.end();
    });
  return kinds;
}

// Hides the mounts of this process from others; they disappear with the process. Without the
// permission for it, the kinds that mount report that they are skipped.
void hide_mounts() {
  if (::unshare(CLONE_NEWNS) == 0) ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
}

std::string make_work_folder() {
  std::string pattern = (fs::temp_directory_path() / "lamina_torture_XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw fs::filesystem_error("cannot be made", pattern, {});
  return pattern;
}

int campaign(const Options& options, const std::vector<Kind>& kinds) {
  const std::string work = make_work_folder();
  Place place{.program = options.program,
              .source = LAMINA_SOURCE_DIR,
              .plugins = fs::path(options.program).parent_path() / "../lib/lamina/plugins",
              .prepared = work + "/prepared"};
  prepare(place);
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(options.minutes * 60));
  double weight = 0;
  for (const Kind& kind : kinds) weight += kind.weight;
  std::uint64_t tried = 0, failed = 0;
  for (const Kind& kind : kinds) {
    const Clock::time_point start = Clock::now();
    Tally tally;
    if (!options.replay.empty()) {
      std::mutex mutex;
      attempt(place, kind, options.seed, work, true, tally, mutex);
    } else if (!interrupted) {
      // The unused or overused time of earlier kinds is divided among the later ones.
      const auto share = std::chrono::duration_cast<Clock::duration>(
          std::max(end - start, Clock::duration::zero()) * (kind.weight / weight));
      tally = run_kind(place, kind, options, work, start + share);
    }
    weight -= kind.weight;
    tried += tally.tried, failed += tally.failed;
    if (!tally.skipped.empty())
      fmt::print("{:<22} SKIPPED: {}\n", kind.name, tally.skipped);
    else
      fmt::print("{:<22} {:6} tried {:6} failed {:7.1f} s\n", kind.name, tally.tried, tally.failed,
                 std::chrono::duration<double>(Clock::now() - start).count());
    print_findings(kind, tally);
    std::fflush(stdout);
  }
  fmt::print("torture: {} cases, {} failed{}\n", tried, failed, interrupted ? ", interrupted" : "");
  if (failed == 0 && options.replay.empty())
    fs::remove_all(work);
  else
    fmt::print("files of the findings, and the run that they compare with: {}\n", work);
  return failed > 0;
}

int main(int argc, char** argv) {
  Options options;
  std::vector<Kind> kinds;
  try {
    if (!read_options(argc, argv, options)) throw std::invalid_argument("wrong usage");
    kinds = chosen_kinds(options);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n{}", e.what(), kHelp);
    return 2;
  }
  if (options.list) {
    for (const Kind& kind : kinds) fmt::print("{:<22} {}\n", kind.name, kind.doc);
    return 0;
  }
  ::signal(SIGINT, on_stop);
  ::signal(SIGTERM, on_stop);
  hide_mounts();
  try {
    return campaign(options, kinds);
  } catch (const Failure& failure) {
    fmt::print(stderr, "error: torture: {}\n{}\n", failure.what(), failure.detail());
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: torture: {}\n", e.what());
  }
  return 3;
}

}  // namespace

std::vector<Kind> all_kinds() {
  std::vector<Kind> all;
  for (const std::vector<Kind>& some : {run_kinds(), fault_kinds(), damage_kinds(), output_kinds(),
                                        mutation_kinds(), template_kinds()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace lamina::torture

int main(int argc, char** argv) { return lamina::torture::main(argc, argv); }
