// What is said when the program can no longer go the usual way of an error: no memory is left for
// the words, or an exception comes where nothing can catch it.
#pragma once

namespace lamina::cli {

// Says "out of memory" on stderr, with `json` also as an error object on stdout, and returns the
// exit code. Allocates nothing.
int report_out_of_memory(bool json) noexcept;

// True once an allocation of ours or a library's was refused (after install_last_words()): what
// went wrong since may have had no other cause. Streams, for one, only say that they failed.
bool memory_ran_out() noexcept;

// From now on what would abort the process (an exception in a thread or in a function that may not
// throw) is said and ends it with the exit code of the exception; a crash is said, with what may
// help, before the signal does its work. [main thread, at the start]
void install_last_words();

// Sees to stacks that are large enough for every thread, or says what the limit must be and ends
// the process with 7. [main thread, at the start]
void require_stack();

}  // namespace lamina::cli
