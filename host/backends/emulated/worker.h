// The thread of the device, and the work enqueued for it.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "runtime/queue.h"

namespace lamina::emulated {

// The state of an event.
struct Mark {
  bool reached = false;
  std::chrono::steady_clock::time_point time;
  std::exception_ptr error;  // of the work before it
};

// Devices of this process, counted from 0; each has lines and memory.
inline constexpr int kMostDevices = 8;

// A queue as the worker sees it.
struct Line {
  struct Work {
    std::function<void()> run;    // or
    std::shared_ptr<Mark> marks;  // a mark is reached, or
    std::shared_ptr<Mark> waits;  // a mark of another line is waited for
  };
  std::deque<Work> work;
  std::exception_ptr error;  // of failed work; later work does not run
  int device = 0;            // or kMostDevices, for work of no device
};

// Runs the work of all lines, each in order; the next line is chosen at random.
class Worker {
 public:
  static Worker& instance();

  void open(Line& line);
  void close(Line& line);  // after its work has run
  void add(Line& line, Line::Work work);
  // Returns when the mark is reached, and rethrows exceptions of the work before it.
  void wait(const Mark& mark);
  // Returns when the line has less than `most` pieces of work.
  void wait_for_room(const Line& line, std::size_t most);
  // Returns true if the mark is reached. Otherwise the worker begins, if it waits.
  bool is_reached(const Mark& mark);
  // Reaches the mark now, although the work before it may not have run.
  void reach(Mark& mark);
  // Waits for the work of a device.
  void wait_all(int device);

 private:
  Worker();
  void serve();
  Line* next();

  static constexpr std::size_t kMostWaiting =
      48;  // pieces of work, before the worker begins by itself

  std::mutex mutex_;
  std::condition_variable wanted_, done_;
  std::vector<Line*> lines_;
  const Line* running_ = nullptr;
  std::size_t num_waiting_ = 0;                             // pieces of work
  std::array<std::size_t, kMostDevices + 1> unfinished_{};  // by device, with the piece that runs
  int num_waiters_ = 0;
  bool drains_ = false;  // runs until no work is left
  std::minstd_rand random_{20261};
  std::thread thread_;  // last member: it uses all others
};

// Waits until the work of all queues of a device has run. Throws nothing.
void finish_all_work(int device = 0);

}  // namespace lamina::emulated
