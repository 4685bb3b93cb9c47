#include "backends/cuda/driver/watched_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "backends/cuda/timeout.h"
#include "core/error.h"
#include "core/hung_device.h"
#include "core/log.h"
#include "core/waiting_time.h"

namespace lamina::cuda {
namespace {

using Clock = WaitingTime::Clock;
using std::chrono::milliseconds;

// The calls of one thread. Slots are never freed, so the list needs no lock.
struct Slot {
  std::atomic<std::uint64_t> changes{0};  // odd during a call
  std::atomic<const char*> function{nullptr};
  std::atomic<int> gpu{-1};  // -1: not known
  std::atomic<bool> taken{true};
  Slot* next = nullptr;
  // The watcher's: the call that it saw last, and since when.
  std::uint64_t seen = 0;
  WaitingTime waiting;
  bool reported = false;
};

std::atomic<Slot*> slots{nullptr};
std::atomic<Clock::duration> limit{Clock::duration::zero()};

Slot* take_slot() {
  for (Slot* slot = slots; slot; slot = slot->next)
    if (bool free = false; slot->taken.compare_exchange_strong(free, true)) return slot;
  Slot* const made = new Slot;
  made->next = slots;
  while (!slots.compare_exchange_weak(made->next, made)) {
  }
  return made;
}

thread_local constinit Slot* slot_here = nullptr;

Slot& slot_of_this_thread() {
  if (!slot_here) [[unlikely]] {
    // Calls after the end of this object, of destructors of static objects, take another slot.
    struct GivesBack {
      ~GivesBack() {
        Slot* const mine = std::exchange(slot_here, nullptr);
        mine->gpu = -1;
        mine->taken = false;
      }
    };
    slot_here = take_slot();
    thread_local const GivesBack gives_back;
  }
  return *slot_here;
}

std::string text_of(const Slot& slot, Clock::duration waited) {
  const int gpu = slot.gpu;
  return fmt::format("{} does not return{}: no answer for {}", slot.function.load(),
                     gpu < 0 ? "" : fmt::format(" on GPU {}", gpu), seconds_text(waited));
}

void look_at(Slot& slot, Clock::duration most) {
  const std::uint64_t now = slot.changes.load(std::memory_order_acquire);
  if (now != slot.seen || now % 2 == 0) {
    slot.seen = now;
    slot.waiting = WaitingTime();
    slot.reported = false;
    return;
  }
  const Clock::duration waited = slot.waiting.look(), report = time_to_report(most);
  if (most > Clock::duration::zero() && waited > most) {
    const DeviceError error(
        ExitCode::memory, {"cuda",
                           text_of(slot, most),
                           {"the card hangs: `dmesg` may show an Xid; reset it, or use another GPU",
                            "a training run continues from its last checkpoint",
                            "LAMINA_GPU_TIMEOUT sets the limit in seconds; 0: none"}});
    end_with_hung_device(error);
  }
  if (waited <= report || slot.reported) return;
  slot.reported = true;
  log::warning("cuda: {}; {}", text_of(slot, report), text_of_limit(most));
}

// The body of the watcher's thread, which ends with the process.
[[noreturn]] void watch_all() {
  for (;;) {
    const Clock::duration most = limit;
    for (Slot* slot = slots; slot; slot = slot->next) look_at(*slot, most);
    std::this_thread::sleep_for(
        std::clamp<Clock::duration>(time_to_report(most) / 4, milliseconds(1), milliseconds(500)));
  }
}

}  // namespace

void watch_calls(Clock::duration most) {
  limit = most;
  static std::once_flag started;
  std::call_once(started, [] {
    try {
      std::thread(watch_all).detach();
    } catch (const std::system_error&) {
      log::warning(
          "cuda: the system starts no thread that watches calls of the driver, so the program may "
          "wait forever if a card hangs; raise the limit (`ulimit -u`, the cgroup's pids.max)");
    }
  });
}

void set_gpu_of_calls(int ordinal) noexcept {
  slot_of_this_thread().gpu.store(ordinal, std::memory_order_relaxed);
}

WatchedCall::WatchedCall(const char* function) noexcept {
  Slot& slot = slot_of_this_thread();
  slot.function.store(function, std::memory_order_relaxed);
  changes_ = &slot.changes;
  changes_->store(changes_->load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

WatchedCall::~WatchedCall() {
  changes_->store(changes_->load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace lamina::cuda
