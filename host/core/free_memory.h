// Returns freed memory to the operating system.
#pragma once

namespace lamina {

// Call it after freeing much memory: tokenized texts, compiled graphs. Takes milliseconds. [any
// thread]
void return_free_memory();

}  // namespace lamina
