// One thread for each rank of a run on several devices.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/communicator.h"

namespace lamina::train {

// [one thread at a time]
class RankThreads {
 public:
  // REQUIRES: the group outlives this.
  explicit RankThreads(CommunicatorGroup& group);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // Calls work(rank) on the thread of each rank, and returns when all have returned. If one throws,
  // the collectives of all ranks are aborted, and the first exception is thrown; an error of
  // communication (exit 6) only if there is no other. If a thread then does not return, because a
  // driver hangs, prints the error and ends the process with its code.
  void run(const std::function<void(int rank)>& work);

 private:
  void serve(int rank);
  [[noreturn]] void give_up();

  CommunicatorGroup& group_;
  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  const std::function<void(int)>* work_ = nullptr;
  std::int64_t round_ = 0;  // counts calls of run()
  int num_running_ = 0;
  bool stops_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace lamina::train
