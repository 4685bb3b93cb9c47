// Provides enough stack for templates, whose expressions and macros call the interpreter
// recursively.
#pragma once

#include <functional>

namespace lamina::jinja {

// Runs `work` on this thread if it has 2 MiB of stack left, else on a new thread. Exceptions of
// `work` pass through. Throws std::bad_alloc if there is no memory for a thread.
void with_stack_space(const std::function<void()>& work);

}  // namespace lamina::jinja
