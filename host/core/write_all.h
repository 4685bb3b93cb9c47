// Writing to a descriptor that somebody else opened: a pipe, a terminal, perhaps non-blocking.
#pragma once

#include <string_view>

namespace lamina {

// Writes everything, through partial writes and interruptions; where the descriptor is non-blocking
// and full, waits until it takes more. Returns 0, or the errno of what cannot be written. Allocates
// nothing. [any thread, signal handlers too]
int write_all(int descriptor, std::string_view text) noexcept;

}  // namespace lamina
