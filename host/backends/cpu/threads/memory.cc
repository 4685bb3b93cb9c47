// mmap, huge pages, and the memory that the machine and the cgroup have left.
#include "backends/cpu/threads/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "core/out_of_memory.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = std::size_t{4} << 20;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

class MappedBuffer final : public Buffer {
 public:
  MappedBuffer(std::byte* data, std::size_t map_bytes, std::size_t bytes)
      : Buffer(MemoryKind::host, data, bytes), data_(data), map_bytes_(map_bytes) {}
  ~MappedBuffer() override { munmap(data_, map_bytes_); }

 private:
  std::byte* data_;
  std::size_t map_bytes_;
};

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // no such file, or "max"
}

// Lines are "<key> <number>". Returns the number of the first of `keys` that exists, else 0.
std::uint64_t read_field(const std::string& path, std::initializer_list<std::string_view> keys) {
  std::ifstream file(path);
  std::string key, rest;
  std::uint64_t value = 0;
  while (file >> key) {
    if (std::ranges::find(keys, key) != keys.end() && file >> value) return value;
    file.clear();
    std::getline(file, rest);
  }
  return 0;
}

// Returns the memory that the tightest limit on the path from `group` up to `root` leaves. Pages of
// files do not count as used, because the system can reclaim them.
std::uint64_t left_along(const std::string& root, std::string group, bool v2) {
  std::uint64_t min_left = kUnlimited;
  for (;;) {
    const std::string folder = root + group + "/";
    auto limit = read_number(folder + (v2 ? "memory.max" : "memory.limit_in_bytes"));
    auto used = read_number(folder + (v2 ? "memory.current" : "memory.usage_in_bytes"));
    if (limit && used && *limit < kUnlimited / 4) {
      const std::string stat = folder + "memory.stat";
      const std::uint64_t files = read_field(stat, {"total_inactive_file", "inactive_file"}) +
                                  read_field(stat, {"total_active_file", "active_file"});
      const std::uint64_t busy = *used > files ? *used - files : 0;
      min_left = std::min(min_left, *limit > busy ? *limit - busy : 0);
    }
    const std::size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return min_left;
    group.resize(slash);
  }
}

// Lines of /proc/self/cgroup are "0::/path" (v2) and "4:memory:/path" (v1).
std::uint64_t left_of_cgroup() {
  std::uint64_t min_left = kUnlimited;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers.empty())
      min_left = std::min(min_left, left_along("/sys/fs/cgroup", group, true));
    if (controllers == "memory") {
      min_left = std::min(min_left, left_along("/sys/fs/cgroup/memory", group, false));
      min_left = std::min(
          min_left, left_along("/sys/fs/cgroup/memory", "", false));  // for a container's own group
    }
  }
  return min_left;
}

// Bytes that the limit on address space (ulimit -v) leaves.
std::uint64_t left_of_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const std::uint64_t used = read_field("/proc/self/status", {"VmSize:"}) * 1024;
  return limit.rlim_cur - std::min<std::uint64_t>(used, limit.rlim_cur);
}

[[noreturn]] void out_of_memory(std::size_t bytes, std::uint64_t available) {
  throw OutOfMemory({"cpu",
                     fmt::format("out of memory asking for {}; {} are available",
                                 human_bytes(bytes), human_bytes(available)),
                     {}});
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) value /= 1024, ++unit;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::uint64_t available_memory_bytes() {
  const std::uint64_t machine = read_field("/proc/meminfo", {"MemAvailable:"}) * 1024;
  return std::min({machine == 0 ? kUnlimited : machine, left_of_cgroup(), left_of_limit()});
}

std::uint64_t resident_memory_bytes() { return read_field("/proc/self/status", {"VmRSS:"}) * 1024; }

std::unique_ptr<Buffer> allocate_memory(std::size_t bytes) {
  const bool large = bytes >= kLarge;
  const std::size_t align = large ? kHugePage : kPage;
  if (large) {
    const std::uint64_t available = available_memory_bytes();
    if (bytes > available) out_of_memory(bytes, available);
  }
  const std::size_t size = std::max(round_up(bytes, kPage), kPage);
  const std::size_t map_bytes = size + align - kPage;
  void* map = mmap(nullptr, map_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) out_of_memory(bytes, available_memory_bytes());
  const auto start = reinterpret_cast<std::uintptr_t>(map);
  auto* data = reinterpret_cast<std::byte*>(round_up(start, align));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(data) - start;
  const std::size_t after = map_bytes - before - size;
  // Unmaps the end, because a part of a huge page would occupy all of it.
  if (before > 0) munmap(map, before);
  if (after > 0) munmap(data + size, after);
  if (large) (void)madvise(data, size, MADV_HUGEPAGE);  // a refusal only makes it slower
  return std::make_unique<MappedBuffer>(data, size, bytes);
}

}  // namespace lamina::cpu
