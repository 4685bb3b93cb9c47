#include "backends/emulated/worker.h"

#include <algorithm>
#include <utility>

#include "core/cpu_mask.h"

namespace lamina::emulated {

Worker& Worker::instance() {
  static Worker& worker = *new Worker;  // its thread ends with the process
  return worker;
}

Worker::Worker() : thread_([this] { serve(); }) {}

void Worker::open(Line& line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(&line);
}

void Worker::close(Line& line) {
  std::unique_lock lock(mutex_);
  ++num_waiters_;
  wanted_.notify_one();
  done_.wait(lock, [&] { return line.work.empty() && running_ != &line; });
  --num_waiters_;
  std::erase(lines_, &line);
}

void Worker::add(Line& line, Line::Work work) {
  const std::lock_guard lock(mutex_);
  line.work.push_back(std::move(work));
  ++num_waiting_;
  ++unfinished_[static_cast<std::size_t>(line.device)];
  if (num_waiting_ >= kMostWaiting) drains_ = true;
  if (drains_ || num_waiters_ > 0) wanted_.notify_one();
}

void Worker::wait(const Mark& mark) {
  std::unique_lock lock(mutex_);
  ++num_waiters_;
  wanted_.notify_one();
  done_.wait(lock, [&] { return mark.reached; });
  --num_waiters_;
  if (mark.error) std::rethrow_exception(mark.error);
}

void Worker::wait_for_room(const Line& line, std::size_t most) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return line.work.size() < most; });
}

bool Worker::is_reached(const Mark& mark) {
  const std::lock_guard lock(mutex_);
  if (!mark.reached && num_waiting_ > 0) {
    drains_ = true;
    wanted_.notify_one();
  }
  return mark.reached;
}

void Worker::reach(Mark& mark) {
  const std::lock_guard lock(mutex_);
  mark.time = std::chrono::steady_clock::now();
  mark.reached = true;
  wanted_.notify_one();
  done_.notify_all();
}

void Worker::wait_all(int device) {
  std::unique_lock lock(mutex_);
  ++num_waiters_;
  wanted_.notify_one();
  done_.wait(lock, [&] { return unfinished_[static_cast<std::size_t>(device)] == 0; });
  --num_waiters_;
}

// Returns one of the lines whose first work can run.
Line* Worker::next() {
  std::vector<Line*> ready;
  for (Line* line : lines_)
    if (!line->work.empty() && (!line->work.front().waits || line->work.front().waits->reached))
      ready.push_back(line);
  return ready.empty() ? nullptr : ready[random_() % ready.size()];
}

void Worker::serve() {
  unpin_this_thread();
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return (num_waiters_ > 0 || drains_) && next() != nullptr; });
    Line& line = *next();
    Line::Work work = std::move(line.work.front());
    line.work.pop_front();
    running_ = &line;
    if (work.run && !line.error) {
      lock.unlock();
      std::exception_ptr error;
      try {
        work.run();
      } catch (...) {
        error = std::current_exception();
      }
      work.run = nullptr;
      lock.lock();
      line.error = error;
    }
    if (work.marks) {
      work.marks->time = std::chrono::steady_clock::now();
      work.marks->error = std::exchange(line.error, nullptr);
      work.marks->reached = true;
    }
    running_ = nullptr;
    --unfinished_[static_cast<std::size_t>(line.device)];
    if (--num_waiting_ == 0) drains_ = false;
    done_.notify_all();
  }
}

void finish_all_work(int device) { Worker::instance().wait_all(device); }

}  // namespace lamina::emulated
