// Ends the process, even while other code is running.
#pragma once

#include <string_view>

namespace lamina {

// Like _exit(), but without the C library's function, which the program intercepts to detect
// plugins that call it. [any thread, also in signal handlers]
[[noreturn]] void end_process(int code) noexcept;

// Writes an error and ends the process, because a thread waits in the driver of a device and cannot
// be ended. [any thread]
[[noreturn]] void end_with_hung_device(int code, std::string_view error) noexcept;

}  // namespace lamina
