// How long the program has been running.
#pragma once

namespace lamina::cli {

// Seconds since the program was executed. What came before main() counts by the CPU time that it
// took; the first call, at the beginning of main(), fixes that. [any thread]
double program_seconds();

}  // namespace lamina::cli
