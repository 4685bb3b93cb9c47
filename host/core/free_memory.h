// What was freed goes back to the operating system.
#pragma once

namespace lamina {

// After much that is not needed any more has been freed: texts that were tokenized, graphs that
// were compiled. Takes milliseconds. [any thread]
void return_free_memory();

}  // namespace lamina
