// oneDNN is opened when a product first wants it (docs/adr/0013): its 40 MB and its OpenMP take
// longer to load than the rest of the program.
#pragma once

#include <string>

namespace lamina::cpu {

// Opens the library on the first call. Why it cannot be used, or "": then its C functions, which
// are null calls before, work. std::bad_alloc where there is no memory for it. [any thread]
const std::string& open_onednn();

// Of OpenMP as oneDNN uses it: the maximum number of threads that it would start. Without effect,
// and 1, where oneDNN does without OpenMP. REQUIRES: open_onednn() returned "".
int onednn_threads();
void set_onednn_threads(int threads);

}  // namespace lamina::cpu
