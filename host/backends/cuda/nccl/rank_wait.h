// The wait of a rank for the others.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/timeout.h"
#include "core/error.h"
#include "core/log.h"
#include "core/waiting_time.h"

namespace lamina::cuda::nccl {

// Throws DeviceError (exit 6).
[[noreturn]] inline void fail(std::string what, std::vector<std::string> notes = {}) {
  throw DeviceError(ExitCode::communication, {"cuda", std::move(what), std::move(notes)});
}

class RankWait {
 public:
  using Limit = std::chrono::milliseconds;

  // `limit`: 0 for none. `reported` is shared by the ranks: one of them reports a long wait.
  RankWait(Limit limit, std::atomic<bool>& reported) : limit_(limit), reported_(reported) {}

  // A collective has ended: the limit holds for the next one.
  void restart() {
    time_ = WaitingTime();
    reported_ = false;
  }

  // Pauses. `text_after` returns what has not come after such a time, eg "0.5 s": a warning when
  // the wait is long, and the error at the limit.
  template <typename Text>
  void pause(const Text& text_after) {
    const WaitingTime::Clock::duration waited = time_.look();
    const Limit report = time_to_report(limit_);
    if (limit_ > Limit::zero() && waited > limit_)
      fail(text_after(seconds_text(limit_)),
           {"a GPU or its link hangs; `nvidia-smi` and the system's log may say more"});
    if (waited > report && !reported_.exchange(true))
      log::warning("cuda: {}; {}", text_after(seconds_text(report)), text_of_limit(limit_));
    time_.pause();
  }

 private:
  const Limit limit_;
  std::atomic<bool>& reported_;
  WaitingTime time_;
};

}  // namespace lamina::cuda::nccl
