// The end of the process, whatever is running.
#pragma once

namespace lamina {

// As _exit() does, but not as a call of the C library's function, which the program takes for one
// of a plugin where one is running. [any thread, also in signal handlers]
[[noreturn]] void end_process(int code) noexcept;

}  // namespace lamina
