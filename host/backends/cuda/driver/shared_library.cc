#include "backends/cuda/driver/shared_library.h"

#include <dlfcn.h>

namespace lamina::cuda {

SharedLibrary::SharedLibrary(std::span<const char* const> files) {
  for (const char* file : files) {
    library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library_) {
      file_ = file;
      return;
    }
    if (const char* const error = dlerror()) why_not_ = error;
  }
}

void* SharedLibrary::address_of(const char* symbol) const { return dlsym(library_, symbol); }

}  // namespace lamina::cuda
