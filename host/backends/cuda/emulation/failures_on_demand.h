// Failures that tests ask fake libraries for.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace lamina::cuda::emulation {

// [any thread]
template <typename Status>
class FailuresOnDemand {
 public:
  // The next call of the function with this name returns the status.
  void add(std::string_view function, Status status) {
    const std::lock_guard lock(mutex_);
    failures_[std::string(function)] = status;
  }
  // Returns the status for a call that begins: the failure, once, or success.
  Status take(std::string_view function) {
    const std::lock_guard lock(mutex_);
    const auto found = failures_.find(function);
    if (found == failures_.end()) return Status::success;
    const Status status = found->second;
    failures_.erase(found);
    return status;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Status, std::less<>> failures_;  // by function
};

}  // namespace lamina::cuda::emulation
