// Ends the process, even while other code is running.
#pragma once

namespace lamina {

// Like _exit(), but without the C library's function, which the program intercepts to detect
// plugins that call it. [any thread, also in signal handlers]
[[noreturn]] void end_process(int code) noexcept;

}  // namespace lamina
