// The threads of threads.h: they run posted parts of one region of work at a time.
//
// A region has a part for each of its threads. The caller runs part 0, then every part that its
// thread has not begun, and waits for the others, so a thread that the system does not run delays
// no other. Waiting threads spin for half a millisecond, because the next region usually starts
// earlier, and then sleep.
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

  // Returns the pool of the process. Never destroyed: at exit its threads sleep or have ended.
  static ThreadPool& instance();

  // Sets the maximum number of threads of a region, including the caller. Without `spin`, for more
  // threads than CPUs, waiting threads sleep at once. Returns the actual number: fewer if the
  // system starts no more. [no region running]
  int resize(int threads, bool spin);
  int size() const { return size_.load(std::memory_order_relaxed); }

  // True if the calling thread is inside a part of a region.
  static bool inside();

  // Calls part(context, i) once for every i of [0, parts), parts at most size(); returns when all
  // are done. Inside a region, or while another thread's region runs, all run on the caller in
  // order. Throws the first exception of a part. [any thread]
  void run(int parts, Part part, const void* context);

  // Calls function(context, thread) on every thread, the caller with 0. Unlike run(), it waits for
  // each thread to make its own call. [no region running]
  void on_each_thread(Part function, const void* context);

 private:
  // Messages between the caller and thread i.
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
