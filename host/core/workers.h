// Threads provided by the caller for independent work.
#pragma once

#include <cstdint>
#include <functional>

namespace lamina {

// Calls work(0) ... work(count - 1), each once, from any threads, and returns when all have
// finished. `work` must not throw.
using Workers =
    std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& work)>;

// Calls `work` through `workers`, or in the calling thread if there are none; idle threads take the
// next call. If calls throw, the exception of the first one is thrown after all have returned.
void work_on_all(const Workers& workers, std::int64_t count,
                 const std::function<void(std::int64_t)>& work);

}  // namespace lamina
