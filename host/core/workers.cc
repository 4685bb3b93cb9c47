#include "core/workers.h"

#include <atomic>
#include <exception>
#include <vector>

namespace lamina {

void work_on_all(const Workers& workers, std::int64_t count,
                 const std::function<void(std::int64_t)>& work) {
  if (!workers) {
    for (std::int64_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<std::int64_t> next = 0;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  workers(count, [&](std::int64_t) {
    const std::int64_t i = next++;
    try {
      work(i);
    } catch (...) {
      errors[static_cast<std::size_t>(i)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace lamina
