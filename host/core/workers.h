// Threads that somebody lends for work in independent parts.
#pragma once

#include <cstdint>
#include <functional>

namespace lamina {

// Calls work(0) ... work(count - 1), each once, from threads of its choice, and returns when all
// have. `work` throws nothing.
using Workers =
    std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& work)>;

// The same by `workers`, or by the caller alone where there are none; whoever is free takes the
// next. Where calls throw, the exception of the first of them is thrown when all have returned.
void work_on_all(const Workers& workers, std::int64_t count,
                 const std::function<void(std::int64_t)>& work);

}  // namespace lamina
