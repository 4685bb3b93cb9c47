#include "backends/cuda/progress.h"

#include <algorithm>
#include <thread>

#include "backends/cuda/context.h"
#include "core/error.h"

namespace lamina::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// The longer a wait has taken, the less does a late answer matter.
void pause_after(Clock::duration waited) {
  if (waited < milliseconds(2)) return std::this_thread::yield();
  std::this_thread::sleep_for(waited < milliseconds(20) ? microseconds(20) : microseconds(200));
}

}  // namespace

QueueProgress::~QueueProgress() {
  if (!context_.try_enter()) return;
  for (const Group& group : groups_)
    if (group.end) context_.api().destroy_event(group.end);
  for (const EventHandle event : spare_) context_.api().destroy_event(event);
}

std::int64_t QueueProgress::next_number() {
  const std::lock_guard lock(mutex_);
  return ++last_;
}

void QueueProgress::add(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (capturing_) return;
  if (groups_.empty() || groups_.back().end) {
    // Work this old has ended, or is named by later groups.
    if (groups_.size() == kMostGroups) forget_first();
    groups_.emplace_back().names.reserve(kGroupSize);
  }
  groups_.back().names.push_back(&name);
  if (groups_.back().names.size() == kGroupSize) close_group();
}

// Records the event of the last group.
void QueueProgress::close_group() {
  const DriverApi& api = context_.api();
  groups_.back().end = take_event();
  check(api, api.record_event(groups_.back().end, stream_), "recording an event");
}

EventHandle QueueProgress::take_event() {
  EventHandle event = nullptr;
  if (spare_.empty()) {
    check(context_.api(), context_.api().make_event(&event, kEventWithoutTime),
          "creating an event");
  } else {
    event = spare_.back();
    spare_.pop_back();
  }
  return event;
}

// Forgets groups that have ended; returns true if there were some.
bool QueueProgress::advance() {
  const std::lock_guard lock(mutex_);
  bool moved = false;
  while (!groups_.empty() && groups_.front().end &&
         context_.api().query_event(groups_.front().end) != DriverResult::not_ready) {
    forget_first();
    moved = true;
  }
  return moved;
}

void QueueProgress::forget_first() {
  if (groups_.front().end) spare_.push_back(groups_.front().end);
  groups_.pop_front();
  ++num_forgotten_;
}

std::string QueueProgress::unfinished() const {
  if (groups_.empty()) return "a copy";
  std::string names;
  for (const std::string* name : groups_.front().names)
    if (names.find(*name) == names.npos) names += (names.empty() ? "" : ", ") + *name;
  return groups_.front().names.size() == 1 ? "the kernel " + names : "one of the kernels " + names;
}

void QueueProgress::poll(EventHandle event) {
  const DriverApi& api = context_.api();
  const Clock::time_point begin = Clock::now();
  Clock::time_point moved = begin;
  for (;;) {
    const DriverResult result = api.query_event(event);
    if (result != DriverResult::not_ready) return check(api, result, "waiting for work");
    const Clock::time_point now = Clock::now();
    if (context_.patience() > Clock::duration::zero() && now - moved > context_.patience()) {
      if (!advance()) break;
      moved = now;
    }
    pause_after(now - begin);
  }
  context_.give_up();
  const std::lock_guard lock(mutex_);
  throw DeviceError(
      ExitCode::memory,
      {"cuda",
       fmt::format("{} does not end: no progress for {} s", unfinished(),
                   std::chrono::duration_cast<std::chrono::seconds>(context_.patience()).count()),
       {"the GPU is not used any more; a training run continues from its last checkpoint",
        "LAMINA_GPU_TIMEOUT sets the limit in seconds; 0: none"}});
}

void QueueProgress::wait(EventHandle event, std::int64_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (number <= reached_) return;
  }
  context_.enter();
  poll(event);
  const std::lock_guard lock(mutex_);
  reached_ = std::max(reached_, number);
}

void QueueProgress::finish() {
  context_.enter();
  std::unique_lock lock(mutex_);
  const std::int64_t last = last_, end = num_forgotten_ + std::ssize(groups_);
  const EventHandle event = take_event();
  lock.unlock();
  try {
    check(context_.api(), context_.api().record_event(event, stream_), "waiting for work");
    poll(event);
  } catch (...) {
    lock.lock();
    spare_.push_back(event);
    throw;
  }
  lock.lock();
  spare_.push_back(event);
  reached_ = std::max(reached_, last);
  while (!groups_.empty() && num_forgotten_ < end) forget_first();
}

}  // namespace lamina::cuda
