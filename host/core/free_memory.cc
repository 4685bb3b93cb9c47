#include "core/free_memory.h"

#include <malloc.h>

namespace lamina {

void return_free_memory() { malloc_trim(0); }

}  // namespace lamina
