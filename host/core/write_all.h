// Writes to a descriptor opened elsewhere: a pipe or a terminal, perhaps non-blocking.
#pragma once

#include <string_view>

namespace lamina {

// Writes everything, across partial writes and interruptions; waits if the descriptor is
// non-blocking and full. Returns 0, or the errno of the failure. Allocates nothing. [any thread,
// signal handlers too]
int write_all(int descriptor, std::string_view text) noexcept;

}  // namespace lamina
