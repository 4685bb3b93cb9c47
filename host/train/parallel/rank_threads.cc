#include "train/parallel/rank_threads.h"

#include <chrono>

#include "core/error.h"
#include "core/hung_device.h"

namespace lamina::train {
namespace {

// After a failure, aborted collectives end at once; the rest of a step may take so long.
constexpr std::chrono::seconds kGrace{60};

// True for an error that may follow from another rank's.
bool is_of_communication(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.code() == ExitCode::communication;
  } catch (...) {
    return false;
  }
}

}  // namespace

RankThreads::RankThreads(CommunicatorGroup& group) : group_(group) {
  for (int rank = 0; rank < group.size(); ++rank)
    threads_.emplace_back([this, rank] { serve(rank); });
}

RankThreads::~RankThreads() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::serve(int rank) {
  if (group_.begin_thread) group_.begin_thread();
  std::int64_t done = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    begun_.wait(lock, [&] { return stops_ || round_ > done; });
    if (stops_) return;
    done = round_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*work_)(rank);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && (!error_ || (is_of_communication(error_) && !is_of_communication(error))))
      error_ = error;
    const bool failed = error_ != nullptr;
    lock.unlock();
    // Only after the error is noted, because others fail then.
    if (failed) group_.ranks[static_cast<std::size_t>(rank)]->abort();
    error = nullptr;
    lock.lock();
    --num_running_;
    ended_.notify_all();
  }
}

void RankThreads::run(const std::function<void(int)>& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  num_running_ = static_cast<int>(threads_.size());
  ++round_;
  begun_.notify_all();
  ended_.wait(lock, [&] { return num_running_ == 0 || error_; });
  if (!ended_.wait_for(lock, kGrace, [&] { return num_running_ == 0; })) give_up();
  work_ = nullptr;
  if (error_) std::rethrow_exception(error_);
}

void RankThreads::give_up() {
  try {
    std::rethrow_exception(error_);
  } catch (const Error& e) {
    end_with_hung_device(e);
  } catch (const std::exception& e) {
    end_with_hung_device(DeviceError(ExitCode::communication, {"", e.what(), {}}));
  }
}

}  // namespace lamina::train
