// The threads behind threads.h: they take posted parts of one region of work at a time.
//
// A region has a part for each of its threads. The caller runs part 0, then every part that its
// thread has not begun, and waits for those that have been: a thread that the system does not let
// run delays nobody. Waiting threads spin for half a millisecond, since the next region is
// rarely farther away, and then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lamina::cpu {

class ThreadPool {
 public:
  using Part = void (*)(const void* context, int part);

  // Of the process. Never destroyed: at exit its threads sleep or have ended.
  static ThreadPool& instance();

  // Threads of a region at most, the caller among them. Without `spin` waiting threads sleep at
  // once: there are more of them than CPUs. Returns how many there are: fewer where the system
  // starts no more. [no region running]
  int resize(int threads, bool spin);
  int size() const { return size_.load(std::memory_order_relaxed); }

  // Whether the calling thread is inside a part of a region.
  static bool inside();

  // Calls part(context, i) once for every i of [0, parts), parts at most size(); returns when all
  // are done. Inside a region, or while another thread's region runs, all on the caller in order.
  // Throws what a part has thrown, the first of several. [any thread]
  void run(int parts, Part part, const void* context);

  // Calls function(context, thread) on every thread, the caller with 0. Unlike run() it waits for
  // each thread to do its own. [no region running]
  void on_each_thread(Part function, const void* context);

 private:
  // What the caller and thread i tell each other.
  struct alignas(128) Mailbox {
    std::atomic<std::uint32_t> state{0};
  };

  void call(int part) noexcept;
  void serve(std::size_t thread);
  void post(std::size_t thread);
  void finish(std::size_t thread, bool take_back);
  void end_threads();

  std::atomic<int> size_{1};
  bool spin_ = true;
  std::atomic<bool> taken_{false};
  Part part_ = nullptr;
  const void* context_ = nullptr;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;            // of the region that runs
  std::unique_ptr<Mailbox[]> mailboxes_;  // [0] is not used
  std::vector<std::thread> threads_;
};

}  // namespace lamina::cpu
