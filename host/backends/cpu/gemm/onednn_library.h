// Opens oneDNN when a product first needs it (docs/adr/0013), because its 40 MB and its OpenMP take
// longer to load than the rest of the program.
#pragma once

#include <string>

namespace lamina::cpu {

// Opens the library on the first call. Returns the reason if it cannot be used, else "". After ""
// its C functions, which are null before, can be called. Throws std::bad_alloc if there is no
// memory for it. [any thread]
const std::string& open_onednn();

// Get and set the maximum number of threads that oneDNN's OpenMP starts. If oneDNN does not use
// OpenMP, the number is 1, and setting it has no effect. REQUIRES: open_onednn() returned "".
int onednn_threads();
void set_onednn_threads(int threads);

}  // namespace lamina::cpu
