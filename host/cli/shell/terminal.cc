// Terminal properties from the descriptor and the environment; unbuffered, checked output.
#include "cli/shell/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "core/broken_pipe.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/system_error.h"
#include "core/write_all.h"
#include "io/destination.h"

namespace lamina::cli {
namespace {

int output = STDOUT_FILENO;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}

int columns_of(int descriptor) {
  constexpr int kMin = 20, kUnknown = 80;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::max<int>(size.ws_col, kMin);
  const char* text = std::getenv("COLUMNS");
  int columns = text ? std::atoi(text) : 0;
  return columns > 0 ? std::clamp(columns, kMin, 1000) : kUnknown;
}

}  // namespace

Terminal describe_terminal(int descriptor, ColorMode mode) {
  if (descriptor == STDOUT_FILENO) descriptor = output;
  Terminal out;
  out.is_terminal = isatty(descriptor) == 1;
  const char* term = std::getenv("TERM");
  bool dumb = !term || !*term || std::string_view(term) == "dumb";
  out.animated = out.is_terminal && !dumb && !is_set("CI");
  out.color = mode == ColorMode::always || (mode == ColorMode::automatic && !is_set("NO_COLOR") &&
                                            (is_set("CLICOLOR_FORCE") || out.animated));
  out.columns = columns_of(descriptor);
  return out;
}

void print(std::string_view text) { print_bytes(printable_lines(text)); }

void print_bytes(std::string_view text) {
  const int failure = write_all(output, text);
  if (failure == EPIPE) throw BrokenPipe();
  if (failure != 0)
    throw UserError(ExitCode::checkpoint,
                    {"stdout", "cannot write output: " + system_error_text(failure), {}});
}

void print_model_text(std::string_view text, bool raw) {
  if (!raw && isatty(output) == 1)
    print(text);
  else
    print_bytes(text);
}

int output_descriptor() noexcept { return output; }

void keep_output_apart() {
  const int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (kept < 0) return;
  if (dup2(STDERR_FILENO, STDOUT_FILENO) == STDOUT_FILENO)
    io::move_standard_output(output = kept);
  else
    close(kept);
}

void repair_standard_descriptors() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) {
      // Opened in the wrong direction: reading from a closed stdin or writing to a closed stdout
      // must fail, not return nothing or lose the result.
      int opened = open("/dev/null", descriptor == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
      if (opened >= 0 && opened != descriptor) dup2(opened, descriptor), close(opened);
    }
}

}  // namespace lamina::cli
