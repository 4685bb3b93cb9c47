// Sizes, pins and runs the OpenMP pool.
#include "backends/cpu/threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "core/error.h"

namespace lamina::cpu {
namespace {

std::atomic<int> pool_threads{0};  // 0: not decided yet

constexpr int kMaskCpus = 8192;  // the kernel's largest NR_CPUS

// A CPU mask of any size; glibc's fixed one ends at 1024 CPUs.
class CpuMask {
 public:
  CpuMask() : set_(CPU_ALLOC(kMaskCpus)) { CPU_ZERO_S(bytes(), set_); }
  ~CpuMask() { CPU_FREE(set_); }
  CpuMask(const CpuMask&) = delete;
  CpuMask& operator=(const CpuMask&) = delete;

  void add(int cpu) { CPU_SET_S(static_cast<std::size_t>(cpu), bytes(), set_); }
  bool has(int cpu) const { return CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes(), set_); }
  bool read() { return sched_getaffinity(0, bytes(), set_) == 0; }
  void apply() const { (void)sched_setaffinity(0, bytes(), set_); }  // refused: merely slower

 private:
  static std::size_t bytes() { return CPU_ALLOC_SIZE(kMaskCpus); }
  cpu_set_t* set_;
};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "0,4" or "0-1" starts with the first sibling; a CPU that is not it shares a core with it.
bool is_first_sibling(int cpu) {
  const std::string siblings = first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                                          "/topology/thread_siblings_list");
  return siblings.empty() || std::atoi(siblings.c_str()) == cpu;
}

struct Cpus {
  std::vector<int> ids;  // first siblings, then the others
  int num_cores = 0;
};

Cpus find_cpus() {
  Cpus cpus;
  std::vector<int> others;
  CpuMask mask;
  if (mask.read()) {
    for (int cpu = 0; cpu < kMaskCpus; ++cpu)
      if (mask.has(cpu)) (is_first_sibling(cpu) ? cpus.ids : others).push_back(cpu);
  }
  cpus.num_cores = std::max(1, static_cast<int>(cpus.ids.size()));
  if (cpus.ids.empty()) cpus.num_cores = std::max(1, static_cast<int>(others.size()));
  cpus.ids.insert(cpus.ids.end(), others.begin(), others.end());
  return cpus;
}

const Cpus& cpus() {
  static const Cpus found = find_cpus();
  return found;
}

// The tightest CPU quota, in CPUs, on the way from `group` up to `root`; infinity when there is
// none. v2 keeps "<quota|max> <period>" in one file, v1 the two numbers in two.
double quota_along(const std::string& root, std::string group, bool v2) {
  double least = INFINITY;
  for (;;) {
    const std::string folder = root + group;
    double quota = -1, period = -1;
    if (v2) {
      std::istringstream(first_line(folder + "/cpu.max")) >> quota >> period;
    } else {
      std::istringstream(first_line(folder + "/cpu.cfs_quota_us")) >> quota;
      std::istringstream(first_line(folder + "/cpu.cfs_period_us")) >> period;
    }
    if (quota > 0 && period > 0) least = std::min(least, quota / period);
    const std::size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return least;
    group.erase(slash);
  }
}

// Lines of /proc/self/cgroup are "0::/path" (v2) and "4:cpu,cpuacct:/path" (v1).
double cgroup_quota() {
  double least = INFINITY;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string group = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    if (controllers == ",,")
      least = std::min(least, quota_along("/sys/fs/cgroup", group, true));
    else if (controllers.find(",cpu,") != std::string::npos)
      least = std::min({least, quota_along("/sys/fs/cgroup/cpu", group, false),
                        quota_along("/sys/fs/cgroup/cpu,cpuacct", group, false)});
  }
  return least;
}

bool pinning_allowed() {
  const char* value = std::getenv("LAMINA_PIN");
  if (value == nullptr || *value == '\0') return true;
  const std::string text = value;
  if (text != "0" && text != "1")
    throw UserError(ExitCode::usage,
                    {"LAMINA_PIN",
                     fmt::format("got '{}'; threads are pinned (1) or not (0)", text),
                     {"use 0 or 1, or unset it"}});
  return text == "1";
}

void pin_pool(int threads) {
#pragma omp parallel num_threads(threads)
  {
    CpuMask mask;
    mask.add(cpus().ids[static_cast<std::size_t>(omp_get_thread_num())]);
    mask.apply();
  }
}

// A pinned pool has at most as many threads as there are CPUs.
void unpin_pool() {
  const int threads = static_cast<int>(cpus().ids.size());
#pragma omp parallel num_threads(threads)
  unpin_this_thread();
}

}  // namespace

const std::vector<int>& allowed_cpus() { return cpus().ids; }

void unpin_this_thread() {
  CpuMask mask;
  for (int cpu : cpus().ids) mask.add(cpu);
  if (!cpus().ids.empty()) mask.apply();
}

void set_threads(int num_threads, bool pin) {
  if (num_threads < 0 || num_threads > kMaxThreads)
    user_error(ExitCode::usage, "threads", "got {} threads; 0 (all cores) to {} are possible",
               num_threads, kMaxThreads);
  const bool pinned = pin && pinning_allowed();
  int threads = num_threads;
  if (threads == 0) {
    threads = std::min(cpus().num_cores, kMaxThreads);
    const double quota = cgroup_quota();
    if (quota < threads) threads = std::max(1, static_cast<int>(std::ceil(quota)));
  }
  omp_set_dynamic(0);
  pool_threads.store(threads);
  static bool pool_is_pinned = false;
  if (pool_is_pinned) unpin_pool();
  pool_is_pinned = pinned && threads <= static_cast<int>(cpus().ids.size());
  if (pool_is_pinned) pin_pool(threads);
}

int num_threads() {
  const int threads = pool_threads.load(std::memory_order_relaxed);
  if (threads != 0) return threads;
  set_threads(0, false);
  return pool_threads.load(std::memory_order_relaxed);
}

namespace detail {

void run_ranges(std::int64_t count, std::int64_t min_per_thread, RangeFunction function,
                const void* context) {
  if (count <= 0) return;
  const std::int64_t useful =
      std::max<std::int64_t>(1, count / std::max<std::int64_t>(1, min_per_thread));
  const int threads =
      useful == 1 ? 1 : static_cast<int>(std::min<std::int64_t>(useful, num_threads()));
  if (threads == 1 || omp_in_parallel()) {
    function(context, 0, count, 0);
    return;
  }
  const std::int64_t share = count / threads;
  const std::int64_t extra = count % threads;
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t begin = thread * share + std::min(thread, extra);
    const std::int64_t end = begin + share + (thread < extra ? 1 : 0);
    function(context, begin, end, static_cast<int>(thread));
  }
}

}  // namespace detail
}  // namespace lamina::cpu
