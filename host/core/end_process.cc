#include "core/end_process.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace lamina {

void end_process(int code) noexcept {
  ::syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

}  // namespace lamina
