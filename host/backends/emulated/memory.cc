#include "backends/emulated/memory.h"

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <map>
#include <mutex>

#include "backends/emulated/backend.h"
#include "backends/emulated/worker.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::emulated {
namespace {

// Addresses, not memory; the kit limits the addresses of its processes.
constexpr std::size_t kDeviceBytes = std::size_t{1} << 30;
constexpr std::size_t kAlignment = 4096;

// Two address ranges of the same size: one without access, and one with the memory.
class Space {
 public:
  // The space of a device, made at the first call.
  static Space& of(int device) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::atomic<Space*>& space = spaces[static_cast<std::size_t>(device)];
    if (!space) space = new Space(device);  // buffers may be freed at exit
    return *space;
  }
  // The space that the address belongs to; null for none. [also in signal handlers]
  static Space* at(Address address) {
    for (Space* space : spaces)
      if (space && space->has(address)) return space;
    return nullptr;
  }
  int device() const { return device_; }

  std::byte* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kAlignment);
    for (auto gap = free_.begin(); gap != free_.end(); ++gap) {
      if (gap->second < size) continue;
      const std::size_t begin = gap->first, rest = gap->second - size;
      free_.erase(gap);
      if (rest > 0) free_.emplace(begin + size, rest);
      taken_.emplace(begin, bytes);
      if (mprotect(behind_ + begin, size, PROT_READ | PROT_WRITE) != 0) break;
      return front_ + begin;
    }
    throw DeviceError(ExitCode::memory, {"cuda",
                                         fmt::format("out of memory asking for {} bytes", bytes),
                                         {"this device is emulated"}});
  }

  void give_back(const std::byte* address) {
    const std::lock_guard lock(mutex_);
    const auto begin = static_cast<std::size_t>(address - front_);
    const std::size_t size = round_up(std::max<std::size_t>(taken_.at(begin), 1), kAlignment);
    taken_.erase(begin);
    // The system zeroes the pages before their next use.
    madvise(behind_ + begin, size, MADV_DONTNEED);
    mprotect(behind_ + begin, size, PROT_NONE);
    auto next = free_.emplace(begin, size).first;
    if (auto after = std::next(next); after != free_.end() && begin + size == after->first) {
      next->second += after->second;
      free_.erase(after);
    }
    if (next != free_.begin())
      if (auto before = std::prev(next); before->first + before->second == begin) {
        before->second += next->second;
        free_.erase(next);
      }
  }

  bool has(Address address) const {
    const auto first = reinterpret_cast<Address>(front_);
    return address >= first && address < first + kDeviceBytes;
  }
  void* behind(Address address) const {
    return behind_ + (address - reinterpret_cast<Address>(front_));
  }
  // Returns the memory behind the buffer that contains the address; empty for none.
  std::span<std::byte> buffer_at(Address address) {
    if (!has(address)) return {};
    const std::lock_guard lock(mutex_);
    const auto at = static_cast<std::size_t>(address - reinterpret_cast<Address>(front_));
    auto after = taken_.upper_bound(at);
    if (after == taken_.begin()) return {};
    --after;
    if (at >= after->first + after->second) return {};
    return {behind_ + after->first, after->second};
  }

 private:
  explicit Space(int device) : device_(device), front_(reserve()), behind_(reserve()) {
    free_.emplace(0, kDeviceBytes);
  }

  static std::byte* reserve() {
    void* at =
        mmap(nullptr, kDeviceBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
      throw DeviceError(ExitCode::memory, {"cuda", "the emulated device has no addresses", {}});
    return static_cast<std::byte*>(at);
  }

  static inline std::array<std::atomic<Space*>, kMostDevices> spaces{};

  int device_;
  std::mutex mutex_;
  std::byte *front_, *behind_;
  std::map<std::size_t, std::size_t> free_, taken_;  // by begin: bytes
};

struct sigaction action_before {};

// Reports a host access to device memory; then handles the signal like any other crash: the fault
// occurs again when this returns.
void on_fault(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<Address>(info->si_addr);
  if (Space::at(address)) {
    std::array<char, 160> text;
    const int length =
        std::snprintf(text.data(), text.size(),
                      "\nemulated device: the host touched device memory, a buffer of %zu bytes\n",
                      bytes_of_buffer_at(address));
    if (write(STDERR_FILENO, text.data(), static_cast<std::size_t>(length)) < 0) return;
    std::array<void*, 64> frames;
    backtrace_symbols_fd(frames.data(), backtrace(frames.data(), frames.size()), STDERR_FILENO);
  }
  sigaction(signal, &action_before, nullptr);
}

void report_host_accesses() {
  std::array<void*, 1> frame;
  backtrace(frame.data(), 1);  // loads libraries now, because a signal handler cannot
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_ONSTACK | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &action_before);
}

class InaccessibleBuffer final : public Buffer {
 public:
  InaccessibleBuffer(std::size_t bytes, int device)
      : Buffer(MemoryKind::device, Space::of(device).take(bytes), bytes), device_(device) {}
  // Waits, because enqueued work may use it.
  ~InaccessibleBuffer() override {
    finish_all_work(device_);
    Space::of(device_).give_back(reinterpret_cast<const std::byte*>(address_));
  }

 private:
  int device_;
};

}  // namespace

std::unique_ptr<Buffer> allocate_inaccessible(std::size_t bytes, int device) {
  static const bool reports = (report_host_accesses(), true);
  LAMINA_ASSERT(reports);
  return std::make_unique<InaccessibleBuffer>(bytes, device);
}

int device_of(Address address) {
  const Space* const space = Space::at(address);
  return space ? space->device() : -1;
}

void* behind(Address address) {
  const Space* const space = Space::at(address);
  return space ? space->behind(address) : reinterpret_cast<void*>(address);
}

std::span<std::byte> buffer_behind(Address address) {
  Space* const space = Space::at(address);
  return space ? space->buffer_at(address) : std::span<std::byte>();
}

std::size_t bytes_of_buffer_at(Address address) { return buffer_behind(address).size(); }

}  // namespace lamina::emulated
