// The table of exit codes.
#include "cli/shell/exit_codes.h"

#include <array>

namespace lamina::cli {
namespace {

// These are never thrown: the process ends with 128 + the number of a signal.
constexpr ExitCode kHangup{128 + 1}, kBrokenPipe{128 + 13};

constexpr std::array kCodes = {
    ExitCodeMeaning{ExitCode::ok, "ok", "done"},
    ExitCodeMeaning{ExitCode::unclassified, "unclassified", "any other error, including bugs"},
    ExitCodeMeaning{ExitCode::usage, "usage", "command line or run file; nothing was changed"},
    ExitCodeMeaning{ExitCode::numerical, "numerical",
                    "a loss or gradient that is not finite; a "
                    "verification that failed"},
    ExitCodeMeaning{ExitCode::checkpoint, "checkpoint", "a checkpoint, model file or disk"},
    ExitCodeMeaning{ExitCode::data, "data", "training data, a prompt or their tokenizer"},
    ExitCodeMeaning{ExitCode::communication, "communication",
                    "the GPUs of a run cannot communicate"},
    ExitCodeMeaning{ExitCode::memory, "memory", "out of memory, or a device that failed"},
    ExitCodeMeaning{ExitCode::plugin, "plugin",
                    "a plugin is missing, broken, too old, or fails its check"},
    ExitCodeMeaning{ExitCode::resumable, "resumable",
                    "saved after a signal; run it again to resume"},
    ExitCodeMeaning{kHangup, "hangup", "SIGHUP, nothing saved"},
    ExitCodeMeaning{ExitCode::interrupted, "interrupted", "SIGINT, nothing saved"},
    ExitCodeMeaning{kBrokenPipe, "broken pipe", "the reader of the output closed it"},
    ExitCodeMeaning{ExitCode::terminated, "terminated", "SIGTERM, nothing saved"},
};

}  // namespace

std::span<const ExitCodeMeaning> exit_codes() { return kCodes; }

std::string_view name_of(ExitCode code) {
  for (const ExitCodeMeaning& row : kCodes)
    if (row.code == code) return row.name;
  return "unclassified";
}

}  // namespace lamina::cli
