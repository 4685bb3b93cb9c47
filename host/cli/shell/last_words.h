// Last messages of the program when errors cannot be reported as usual: no memory is left for the
// text, or an exception cannot be caught.
#pragma once

namespace lamina::cli {

// Prints "out of memory" to stderr, with `json` also as an error object to stdout, and returns the
// exit code. Allocates nothing.
int report_out_of_memory(bool json) noexcept;

// True once an allocation of ours or a library's was refused (after install_last_words()). Later
// errors may have this cause; streams, for example, only report that they failed.
bool memory_ran_out() noexcept;

// From now on, an abort (by an exception in a thread or in a noexcept function) is reported and
// ends the process with the exception's exit code; a crash is reported, with advice, before the
// signal's default action. [main thread, at the start]
void install_last_words();

// Makes stacks large enough for every thread, or prints the required limit and ends the process
// with 7. Takes the main thread's stack at once if the address space is limited.
// [main thread, at the start]
void require_stack();

}  // namespace lamina::cli
