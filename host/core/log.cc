#include "core/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "core/system_error.h"
#include "core/write_all.h"

namespace lamina::log {
namespace {

// Unlike spdlog's own, loses nothing where stderr is non-blocking and full.
class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    (void)write_all(STDERR_FILENO, {line.data(), line.size()});
  }
  void flush_() override {}
};

struct State {
  std::mutex mutex;
  std::shared_ptr<StderrSink> terminal = std::make_shared<StderrSink>();
  std::shared_ptr<spdlog::logger> logger;
  std::function<void()> before_terminal;

  State() { rebuild({}); }

  void rebuild(std::shared_ptr<spdlog::sinks::sink> file) {
    auto level = logger ? logger->level() : spdlog::level::info;
    std::vector<spdlog::sink_ptr> sinks{terminal};
    if (file) sinks.push_back(std::move(file));
    terminal->set_pattern("%v");
    logger = std::make_shared<spdlog::logger>("lamina", sinks.begin(), sinks.end());
    logger->set_level(level);
    logger->flush_on(spdlog::level::info);
    logger->set_error_handler([said = false](const std::string& what) mutable {
      if (!std::exchange(said, true))
        fmt::print(stderr, "warning: the log file has gaps: {}; free space on its disk\n", what);
    });
  }
};

// Never destroyed: messages may come from other static destructors.
State& state() {
  static State* const instance = new State;
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void set_level(Level level) {
  std::lock_guard lock(state().mutex);
  state().logger->set_level(to_spdlog(level));
}

void set_file(const std::string& path) {
  std::shared_ptr<spdlog::sinks::sink> file;
  if (!path.empty()) {
    // A FIFO would wait for its reader.
    if (std::error_code ec;
        std::filesystem::exists(path, ec) && !std::filesystem::is_regular_file(path, ec))
      throw DeviceError(
          ExitCode::checkpoint,
          {path, "is not a regular file, so no log can be written", {"remove it, or rename it"}});
    try {
      file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    } catch (const spdlog::spdlog_ex&) {
      throw DeviceError(ExitCode::checkpoint,
                        {path,
                         fmt::format("cannot be written: {}", system_error_text(errno)),
                         {"check the disk and the permissions of the directory"}});
    }
    file->set_pattern("%Y-%m-%dT%H:%M:%S%z %l %v");
  }
  std::lock_guard lock(state().mutex);
  state().rebuild(std::move(file));
}

void set_before_terminal(std::function<void()> callback) {
  std::lock_guard lock(state().mutex);
  state().before_terminal = std::move(callback);
}

void write(Level level, std::string_view message) {
  std::shared_ptr<spdlog::logger> logger;
  {
    std::lock_guard lock(state().mutex);
    logger = state().logger;
    if (state().before_terminal && logger->should_log(to_spdlog(level))) state().before_terminal();
  }
  const std::string text = printable_lines(message);
  if (level == Level::warning)
    logger->warn("warning: {}", text);
  else
    logger->log(to_spdlog(level), text);
}

}  // namespace lamina::log
