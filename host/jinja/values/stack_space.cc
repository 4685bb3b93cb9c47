#include "jinja/values/stack_space.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>

namespace lamina::jinja {
namespace {

// The deepest templates within the limits take a quarter of it; with sanitizers all of it.
constexpr std::size_t kNeeded = std::size_t{2} << 20;

// The lowest address of this thread's stack. The main thread's depends on `ulimit -s`.
std::uintptr_t stack_bottom() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return UINTPTR_MAX;
  void* bottom = nullptr;
  std::size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &bottom, &size) == 0;
  pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<std::uintptr_t>(bottom) : UINTPTR_MAX;
}

bool has_space() {
  thread_local const std::uintptr_t bottom = stack_bottom();
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return here > bottom && here - bottom > kNeeded;
}

struct WorkOnStack {
  const std::function<void()>& work;
  std::exception_ptr error;
};

void* run_on_stack(void* argument) {
  auto& call = *static_cast<WorkOnStack*>(argument);
  try {
    call.work();
  } catch (...) {
    call.error = std::current_exception();
  }
  return nullptr;
}

}  // namespace

void with_stack_space(const std::function<void()>& work) {
  if (has_space()) return work();
  WorkOnStack call{work, nullptr};
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) throw std::bad_alloc();
  pthread_t thread = {};
  const bool started = pthread_attr_setstacksize(&attributes, 2 * kNeeded) == 0 &&
                       pthread_create(&thread, &attributes, run_on_stack, &call) == 0;
  pthread_attr_destroy(&attributes);
  if (!started) throw std::bad_alloc();
  pthread_join(thread, nullptr);
  if (call.error) std::rethrow_exception(call.error);
}

}  // namespace lamina::jinja
