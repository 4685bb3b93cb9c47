// Mailboxes, spinning and sleeping.
#include "backends/cpu/threads/thread_pool.h"

#include <chrono>
#include <system_error>
#include <utility>

namespace lamina::cpu {
namespace {

// A mailbox's state. idle -> posted by the caller; posted -> running by the thread, or -> idle by a
// caller that takes the part back; running -> idle by the thread. asleep and awaited are idle and
// running while a thread sleeps until the state changes.
enum State : std::uint32_t { kIdle, kAsleep, kPosted, kRunning, kAwaited, kEnd };

// Longer than the usual work of one thread between two regions, and than the usual wait of one
// thread of a region for the others. On a busy machine, a sleeping thread returns only after
// another process's time slice of some milliseconds.
constexpr auto kSpin = std::chrono::microseconds(500);
constexpr int kPausesPerLook = 32;  // at the clock

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until the state is no longer `state`; returns false after a time limit.
bool spin_while(const std::atomic<std::uint32_t>& word, std::uint32_t state) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end = {};
  for (;;) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (word.load(std::memory_order_relaxed) != state) return true;
      pause();
    }
    const Clock::time_point now = Clock::now();
    if (end == Clock::time_point{}) end = now + kSpin;
    if (now >= end) return false;
  }
}

// Waits until the state is neither `state` nor `asleep`, which means that a thread sleeps.
void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t state, std::uint32_t asleep,
                bool spin) {
  if (spin && spin_while(word, state)) return;
  std::uint32_t seen = state;
  if (!word.compare_exchange_strong(seen, asleep, std::memory_order_relaxed)) return;
  while (word.load(std::memory_order_relaxed) == asleep)
    word.wait(asleep, std::memory_order_relaxed);
}

thread_local bool inside_part = false;

}  // namespace

ThreadPool& ThreadPool::instance() {
  static ThreadPool* const pool = new ThreadPool;
  return *pool;
}

bool ThreadPool::inside() { return inside_part; }

void ThreadPool::call(int part) noexcept {
  inside_part = true;
  try {
    part_(context_, part);
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  inside_part = false;
}

void ThreadPool::end_threads() {
  for (std::size_t i = 1; i <= threads_.size(); ++i) {
    // Not a store: notify_one() may look for a waiting thread before a store can be seen by it.
    mailboxes_[i].state.exchange(kEnd, std::memory_order_release);
    mailboxes_[i].state.notify_one();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

int ThreadPool::resize(int threads, bool spin) {
  if (threads == size() && spin == spin_) return threads;
  end_threads();
  size_.store(1);
  spin_ = spin;
  const auto count = static_cast<std::size_t>(threads);
  mailboxes_ = std::make_unique<Mailbox[]>(count);
  threads_.reserve(count);
  try {
    for (std::size_t i = 1; i < count; ++i) threads_.emplace_back([this, i] { serve(i); });
  } catch (const std::system_error&) {
    // A limit on processes or memory was reached; the existing threads do the work.
  }
  size_.store(1 + static_cast<int>(threads_.size()));
  return size();
}

void ThreadPool::serve(std::size_t thread) {
  std::atomic<std::uint32_t>& state = mailboxes_[thread].state;
  for (;;) {
    wait_while(state, kIdle, kAsleep, spin_);
    std::uint32_t seen = kPosted;
    if (!state.compare_exchange_strong(seen, kRunning, std::memory_order_acquire)) {
      if (seen == kEnd) return;
      continue;
    }
    call(static_cast<int>(thread));
    if (state.exchange(kIdle, std::memory_order_release) == kAwaited) state.notify_one();
  }
}

void ThreadPool::post(std::size_t thread) {
  std::atomic<std::uint32_t>& state = mailboxes_[thread].state;
  if (state.exchange(kPosted, std::memory_order_release) == kAsleep) state.notify_one();
}

void ThreadPool::finish(std::size_t thread, bool take_back) {
  std::atomic<std::uint32_t>& state = mailboxes_[thread].state;
  std::uint32_t seen = kPosted;
  if (take_back) {
    if (state.compare_exchange_strong(seen, kIdle, std::memory_order_relaxed))
      return call(static_cast<int>(thread));
  } else {
    while (state.load(std::memory_order_relaxed) == kPosted) std::this_thread::yield();
  }
  while (state.load(std::memory_order_acquire) == kRunning)
    wait_while(state, kRunning, kAwaited, spin_);
}

void ThreadPool::run(int parts, Part part, const void* context) {
  if (parts == 1 || inside_part || taken_.exchange(true, std::memory_order_acquire)) {
    for (int i = 0; i < parts; ++i) part(context, i);
    return;
  }
  part_ = part;
  context_ = context;
  const auto count = static_cast<std::size_t>(parts);
  for (std::size_t i = 1; i < count; ++i) post(i);
  call(0);
  for (std::size_t i = 1; i < count; ++i) finish(i, true);
  const std::exception_ptr failure = std::exchange(failure_, nullptr);
  taken_.store(false, std::memory_order_release);
  if (failure) std::rethrow_exception(failure);
}

void ThreadPool::on_each_thread(Part function, const void* context) {
  part_ = function;
  context_ = context;
  for (std::size_t i = 1; i <= threads_.size(); ++i) post(i);
  call(0);
  for (std::size_t i = 1; i <= threads_.size(); ++i) finish(i, false);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace lamina::cpu
