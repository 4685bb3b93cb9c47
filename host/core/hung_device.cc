#include "core/hung_device.h"

#include <atomic>

#include "core/end_process.h"
#include "core/log.h"

namespace lamina {
namespace {

void report_as_line(const Error& error) {
  log::write(log::Level::error, fmt::format("error: {}", error.what()));
}

std::atomic<void (*)(const Error&)> reported_by{report_as_line};

}  // namespace

void report_hung_device_by(void (*report)(const Error& error)) noexcept { reported_by = report; }

void end_with_hung_device(const Error& error) noexcept {
  try {
    reported_by.load()(error);
  } catch (...) {
    // The exit code still says it.
  }
  log::info("a device does not answer: the process ends at once; the last checkpoint stays");
  end_process(static_cast<int>(error.code()));
}

}  // namespace lamina
