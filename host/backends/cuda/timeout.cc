#include "backends/cuda/timeout.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace lamina::cuda {
namespace {

// More than any kernel and any wait behind other processes on the GPU takes.
constexpr int kUsualSeconds = 600;

}  // namespace

std::chrono::seconds gpu_timeout() {
  const char* const text = std::getenv("LAMINA_GPU_TIMEOUT");
  if (!text || !*text) return std::chrono::seconds(kUsualSeconds);
  int seconds = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, bad] = std::from_chars(text, end, seconds);
  if (bad != std::errc() || stop != end || seconds < 0)
    throw UserError(ExitCode::usage,
                    {"LAMINA_GPU_TIMEOUT",
                     fmt::format("got '{}'; expected seconds, or 0 for no limit", text),
                     {}});
  return std::chrono::seconds(seconds);
}

std::string seconds_text(std::chrono::duration<double> time) {
  return fmt::format("{:g} s", time.count());
}

std::string text_of_limit(std::chrono::duration<double> limit) {
  if (limit.count() == 0) return "LAMINA_GPU_TIMEOUT sets a limit in seconds";
  return fmt::format("the program gives up after {}; LAMINA_GPU_TIMEOUT sets the limit",
                     seconds_text(limit));
}

}  // namespace lamina::cuda
