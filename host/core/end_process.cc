#include "core/end_process.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/log.h"

namespace lamina {

void end_process(int code) noexcept {
  ::syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

void end_with_hung_device(int code, std::string_view error) noexcept {
  log::write(log::Level::error, fmt::format("error: {}", error));
  log::info("a device does not answer: the process ends at once; the last checkpoint stays");
  end_process(code);
}

}  // namespace lamina
