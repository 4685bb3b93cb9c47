// Ends the process if a device hangs.
#pragma once

#include "core/error.h"

namespace lamina {

// Sets the function that writes the error of a hung device, in place of a line on stderr. It may
// run on any thread while others wait, so it must not wait for them. [any thread]
void report_hung_device_by(void (*report)(const Error& error)) noexcept;

// Reports an error and ends the process with its exit code, because a thread waits in the driver of
// a device and cannot be ended. [any thread]
[[noreturn]] void end_with_hung_device(const Error& error) noexcept;

}  // namespace lamina
