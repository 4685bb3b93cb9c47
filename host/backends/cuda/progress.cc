#include "backends/cuda/progress.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "backends/cuda/context.h"
#include "backends/cuda/timeout.h"
#include "core/error.h"
#include "core/log.h"
#include "core/waiting_time.h"

namespace lamina::cuda {
namespace {

using Clock = WaitingTime::Clock;

}  // namespace

void GpuProgress::add(const std::shared_ptr<QueueProgress>& queue) {
  const std::lock_guard lock(mutex_);
  std::erase_if(queues_, [](const auto& known) { return known.expired(); });
  queues_.push_back(queue);
  queue->set_capturing(num_captures_ > 0);
}

void GpuProgress::set_capturing(bool capturing) {
  std::unique_lock lock(mutex_);
  if (capturing) changed_.wait(lock, [&] { return num_finishing_ == 0; });
  num_captures_ += capturing ? 1 : -1;
  for (const auto& known : queues_)
    if (const auto queue = known.lock()) queue->set_capturing(num_captures_ > 0);
  changed_.notify_all();
}

std::vector<std::shared_ptr<QueueProgress>> GpuProgress::queues() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<QueueProgress>> out;
  for (const auto& known : queues_)
    if (auto queue = known.lock()) out.push_back(std::move(queue));
  return out;
}

void GpuProgress::wait(EventHandle event) {
  const DriverApi& api = context_.api();
  const Clock::duration limit = context_.patience(), report = time_to_report(limit);
  WaitingTime waiting;  // since the last progress
  bool groups_end = false, reported = false;
  for (;;) {
    const DriverResult result = api.query_event(event);
    if (result != DriverResult::not_ready) return check(api, result, "waiting for work");
    const Clock::duration waited = waiting.look();
    if (waited > report) {
      bool advanced = false;
      for (const auto& queue : queues()) advanced |= queue->advance();
      if (advanced) {
        waiting = WaitingTime();
        groups_end = false;
      } else if (!groups_end) {
        // Otherwise kernels that have ended could be named.
        for (const auto& queue : queues()) queue->end_group();
        groups_end = true;
      } else if (limit > Clock::duration::zero() && waited > limit) {
        break;
      } else if (!std::exchange(reported, true)) {
        log::warning("cuda: {} has not ended for {}; {}", unfinished(), seconds_text(report),
                     text_of_limit(limit));
      }
    }
    waiting.pause();
  }
  context_.give_up(
      {"cuda",
       fmt::format("{} does not end: no progress for {}", unfinished(), seconds_text(limit)),
       {"the GPU is not used any more; a training run continues from its last checkpoint",
        "LAMINA_GPU_TIMEOUT sets the limit in seconds; 0: none"}});
}

void GpuProgress::finish() {
  // In a capture of this thread the driver refuses the wait.
  const bool waits = !CudaContext::is_capturing();
  if (waits) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_captures_ == 0; });
    ++num_finishing_;
  }
  const auto end = [&] {
    if (!waits) return;
    const std::lock_guard lock(mutex_);
    --num_finishing_;
    changed_.notify_all();
  };
  try {
    for (const auto& queue : queues()) queue->finish();
  } catch (...) {
    end();
    throw;
  }
  end();
}

std::string GpuProgress::unfinished() {
  std::vector<std::string> names;
  for (const auto& queue : queues()) queue->add_unfinished(names);
  if (names.empty()) return "a copy or a fill";
  return fmt::format("{} {}", names.size() == 1 ? "the kernel" : "one of the kernels",
                     fmt::join(names, ", "));
}

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

void QueueProgress::add(const std::string* name) {
  std::unique_lock lock(mutex_);
  if (capturing_) return;
  while (groups_.size() == kMostGroups && groups_.back().end) {
    const EventHandle oldest = groups_.front().end;
    const std::int64_t number = num_forgotten_;
    lock.unlock();
    context_.progress().wait(oldest);
    lock.lock();
    if (num_forgotten_ == number) forget_first();
  }
  if (groups_.empty() || groups_.back().end) groups_.emplace_back().names.reserve(kGroupSize);
  groups_.back().names.push_back(name);
  if (groups_.back().names.size() == kGroupSize) close_group();
}

// Records the event of the last group.
void QueueProgress::close_group() {
  const DriverApi& api = context_.api();
  groups_.back().end = take_event();
  check(api, api.record_event(groups_.back().end, stream_), "recording an event");
}

void QueueProgress::end_group() {
  const std::lock_guard lock(mutex_);
  if (stream_ && !capturing_ && !groups_.empty() && !groups_.back().end) close_group();
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

void QueueProgress::add_unfinished(std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  if (groups_.empty()) return;
  for (const std::string* name : groups_.front().names)
    if (name && std::ranges::find(names, *name) == names.end()) names.push_back(*name);
}

void QueueProgress::wait(EventHandle event, std::int64_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (number <= reached_) return;
  }
  context_.enter();
  context_.progress().wait(event);
  const std::lock_guard lock(mutex_);
  reached_ = std::max(reached_, number);
}

void QueueProgress::finish() {
  context_.enter();
  std::unique_lock lock(mutex_);
  if (!stream_) return;
  const std::int64_t last = last_, end = num_forgotten_ + std::ssize(groups_);
  const EventHandle event = take_event();
  try {
    check(context_.api(), context_.api().record_event(event, stream_), "waiting for work");
    lock.unlock();
    context_.progress().wait(event);
    lock.lock();
  } catch (...) {
    if (!lock) lock.lock();
    spare_.push_back(event);
    throw;
  }
  spare_.push_back(event);
  reached_ = std::max(reached_, last);
  while (!groups_.empty() && num_forgotten_ < end) forget_first();
}

void QueueProgress::close() {
  const std::lock_guard lock(mutex_);
  stream_ = nullptr;
}

}  // namespace lamina::cuda
