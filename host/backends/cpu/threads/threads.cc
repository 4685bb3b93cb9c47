// Sizes and pins the pool, and distributes work over it.
#include "backends/cpu/threads/threads.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "backends/cpu/threads/thread_pool.h"
#include "core/cpu_mask.h"
#include "core/error.h"
#include "core/log.h"

namespace lamina::cpu {
namespace {

std::atomic<int> pool_threads{0};  // 0: not decided yet

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
  if (const CpuMask* allowed = allowed_cpus()) {
    for (int cpu = 0; cpu < CpuMask::kMaxCpus; ++cpu)
      if (allowed->has(cpu)) (is_first_sibling(cpu) ? cpus.ids : others).push_back(cpu);
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

// Returns the tightest CPU quota, in CPUs, on the path from `group` up to `root`; infinity without
// a quota. v2 keeps "<quota|max> <period>" in one file, v1 the two numbers in two.
double quota_along(const std::string& root, std::string group, bool v2) {
  double min_quota = INFINITY;
  for (;;) {
    const std::string folder = root + group;
    double quota = -1, period = -1;
    if (v2) {
      std::istringstream(first_line(folder + "/cpu.max")) >> quota >> period;
    } else {
      std::istringstream(first_line(folder + "/cpu.cfs_quota_us")) >> quota;
      std::istringstream(first_line(folder + "/cpu.cfs_period_us")) >> period;
    }
    if (quota > 0 && period > 0) min_quota = std::min(min_quota, quota / period);
    const std::size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return min_quota;
    group.erase(slash);
  }
}

// Lines of /proc/self/cgroup are "0::/path" (v2) and "4:cpu,cpuacct:/path" (v1).
double cgroup_quota() {
  double min_quota = INFINITY;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string group = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    if (controllers == ",,")
      min_quota = std::min(min_quota, quota_along("/sys/fs/cgroup", group, true));
    else if (controllers.find(",cpu,") != std::string::npos)
      min_quota = std::min({min_quota, quota_along("/sys/fs/cgroup/cpu", group, false),
                            quota_along("/sys/fs/cgroup/cpu,cpuacct", group, false)});
  }
  return min_quota;
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

void pin_pool() {
  ThreadPool::instance().on_each_thread(
      [](const void*, int thread) {
        CpuMask mask;
        mask.add(cpus().ids[static_cast<std::size_t>(thread)]);
        mask.apply();
      },
      nullptr);
}

void unpin_pool() {
  ThreadPool::instance().on_each_thread([](const void*, int) { unpin_this_thread(); }, nullptr);
}

}  // namespace

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
  const bool fits = threads <= static_cast<int>(cpus().ids.size());
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static bool pool_is_pinned = false;
  if (pool_is_pinned) unpin_pool();  // a new thread inherits the CPUs of its starter
  const int started = ThreadPool::instance().resize(threads, fits);
  pool_threads.store(started);
  if (started < threads)
    log::warning(
        "threads: the system starts {} of {}; continuing with them. Ask for fewer with -t, "
        "or raise the limit (`ulimit -u`, `ulimit -v`, the cgroup's pids.max)",
        started, threads);
  pool_is_pinned = pinned && fits;
  if (pool_is_pinned) pin_pool();
}

int num_threads() {
  const int threads = pool_threads.load(std::memory_order_relaxed);
  if (threads != 0) return threads;
  set_threads(0, false);
  return pool_threads.load(std::memory_order_relaxed);
}

namespace detail {
namespace {

// Returns the number of threads worth using for `count` items.
int useful_threads(std::int64_t count, std::int64_t min_per_thread) {
  const std::int64_t useful = count / std::max<std::int64_t>(1, min_per_thread);
  if (useful <= 1 || ThreadPool::inside()) return 1;
  return static_cast<int>(std::min<std::int64_t>(useful, num_threads()));
}

struct Range {
  std::int64_t begin, end;
};

Range share_of(std::int64_t count, int threads, int thread) {
  const std::int64_t share = count / threads, extra = count % threads;
  const std::int64_t begin = thread * share + std::min<std::int64_t>(thread, extra);
  return {begin, begin + share + (thread < extra ? 1 : 0)};
}

// The rest of a thread's share, [begin, end): the thread takes from the front, others from the
// back, each by one exchange of both numbers.
struct alignas(64) Share {
  std::uint64_t packed;

  static std::uint64_t pack(std::int64_t begin, std::int64_t end) {
    return static_cast<std::uint64_t>(begin) << 32 | static_cast<std::uint64_t>(end);
  }
  static Range unpack(std::uint64_t packed) {
    return {static_cast<std::int64_t>(packed >> 32),
            static_cast<std::int64_t>(packed & 0xffffffffu)};
  }
  Range left() { return unpack(std::atomic_ref(packed).load(std::memory_order_relaxed)); }
  void set(Range r) {
    std::atomic_ref(packed).store(pack(r.begin, r.end), std::memory_order_relaxed);
  }
  // Shortens the rest to `rest`, if it is still `seen`.
  bool replace(Range& seen, Range rest) {
    std::uint64_t expected = pack(seen.begin, seen.end);
    if (std::atomic_ref(packed).compare_exchange_weak(expected, pack(rest.begin, rest.end),
                                                      std::memory_order_relaxed))
      return true;
    seen = unpack(expected);
    return false;
  }
  // Takes up to `grain` items from the front; an empty range if nothing is left.
  Range take(std::int64_t grain) {
    Range seen = left();
    for (;;) {
      if (seen.begin >= seen.end) return {0, 0};
      const std::int64_t cut = std::min(seen.begin + grain, seen.end);
      if (replace(seen, {cut, seen.end})) return {seen.begin, cut};
    }
  }
  // Takes the back half, or all if at most `grain` are left; an empty range if nothing is left.
  Range steal(std::int64_t grain) {
    Range seen = left();
    for (;;) {
      const std::int64_t count = seen.end - seen.begin;
      if (count <= 0) return {0, 0};
      const std::int64_t cut = seen.end - std::max(std::min(grain, count), count / 2);
      if (replace(seen, {seen.begin, cut})) return {cut, seen.end};
    }
  }
};

struct Shares {
  Share* shares;
  int threads;
  std::int64_t grain;
  RangeFunction function;
  const void* context;

  void work(int thread) const {
    Share& own = shares[thread];
    for (;;) {
      for (Range r = own.take(grain); r.begin < r.end; r = own.take(grain))
        function(context, r.begin, r.end, thread);
      int fullest = thread;
      std::int64_t max_left = 0;
      for (int i = 0; i < threads; ++i) {
        const Range r = shares[i].left();
        if (r.end - r.begin > max_left) max_left = r.end - r.begin, fullest = i;
      }
      if (max_left == 0) return;
      own.set(shares[fullest].steal(grain));
    }
  }
};

}  // namespace

void run_ranges(std::int64_t count, std::int64_t min_per_thread, RangeFunction function,
                const void* context) {
  if (count <= 0) return;
  const int threads = useful_threads(count, min_per_thread);
  if (threads == 1) return function(context, 0, count, 0);
  struct Work {
    std::int64_t count;
    int threads;
    RangeFunction function;
    const void* context;
  } const work{count, threads, function, context};
  ThreadPool::instance().run(
      threads,
      [](const void* argument, int thread) {
        const Work& w = *static_cast<const Work*>(argument);
        const Range range = share_of(w.count, w.threads, thread);
        w.function(w.context, range.begin, range.end, thread);
      },
      &work);
}

void run_shares(std::int64_t count, std::int64_t grain, std::int64_t min_per_thread,
                RangeFunction function, const void* context) {
  if (count <= 0) return;
  const int threads = useful_threads(count, min_per_thread);
  if (threads == 1) return function(context, 0, count, 0);
  LAMINA_ASSERT(count <= UINT32_MAX);
  Share shares[kMaxThreads];  // only the first `threads` are used
  for (int thread = 0; thread < threads; ++thread)
    shares[thread].set(share_of(count, threads, thread));
  const Shares work{shares, threads, std::max<std::int64_t>(1, grain), function, context};
  ThreadPool::instance().run(
      threads,
      [](const void* argument, int thread) { static_cast<const Shares*>(argument)->work(thread); },
      &work);
}

}  // namespace detail
}  // namespace lamina::cpu
