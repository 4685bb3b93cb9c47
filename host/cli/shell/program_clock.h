// Run time of the program.
#pragma once

namespace lamina::cli {

// Seconds since the program was executed. The time before main() is counted as CPU time; the first
// call, at the beginning of main(), fixes it. [any thread]
double program_seconds();

}  // namespace lamina::cli
