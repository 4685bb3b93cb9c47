// Calls of the driver, and of the libraries above it, that may never return: with a card that
// hangs, each may. A thread looks at all calls that are under way. It cannot end one, so it ends
// the process after the limit, with exit code 7 and the name of the function.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lamina::cuda {

// Watches calls of all threads from now on; 0: no limit. [any thread]
void watch_calls(std::chrono::steady_clock::duration limit);

// Sets the GPU that is named for later calls of this thread.
void set_gpu_of_calls(int ordinal) noexcept;

// A call of this thread, until destroyed. Takes a few nanoseconds. REQUIRES: no other one of the
// thread.
class WatchedCall {
 public:
  explicit WatchedCall(const char* function) noexcept;
  ~WatchedCall();
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

 private:
  std::atomic<std::uint64_t>* changes_;
};

// Replaces a function of a library by one whose calls are watched. `Place`: a member of the
// library's table, a pointer to a function; `Library`: any type, another one for each library that
// has this table.
template <typename Library, auto Place>
struct WatchedFunction;
template <typename Library, typename Api, typename Result, typename... Args,
          Result (*Api::*Place)(Args...)>
struct WatchedFunction<Library, Place> {
  static inline Result (*real)(Args...) = nullptr;
  static inline const char* name = "";
  static Result call(Args... args) {
    const WatchedCall watched(name);
    return real(args...);
  }
};

// Replaces `function`, if it is not null. `name` must stay.
template <typename Library, auto Place, typename Function>
void watch(Function& function, const char* name) {
  using Watched = WatchedFunction<Library, Place>;
  if (!function) return;
  Watched::real = function;
  Watched::name = name;
  function = Watched::call;
}

}  // namespace lamina::cuda
