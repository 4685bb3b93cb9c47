#include "core/log.h"

#include <fcntl.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "core/open_file.h"
#include "core/printable.h"
#include "core/write_all.h"

namespace lamina::log {
namespace {

// Unlike spdlog's sink, loses nothing if stderr is non-blocking and full.
class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    (void)write_all(STDERR_FILENO, {line.data(), line.size()});
  }
  void flush_() override {}
};

// Appends to an open file. Unlike spdlog's sink it never opens a file by name, which may have
// become a link.
class FileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(int fd) : fd_(fd) {}
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink() override { ::close(fd_); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (const int error = write_all(fd_, {line.data(), line.size()}))
      throw spdlog::spdlog_ex("a write failed", error);
  }
  void flush_() override {}

  int fd_;
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
    // Threads may write at once. A terminal that is gone, too, must not end the work.
    logger->set_error_handler(
        [said = std::make_shared<std::atomic_flag>()](const std::string& what) {
          if (!said->test_and_set())
            (void)write_all(STDERR_FILENO, fmt::format("warning: the log file has gaps: {}; free "
                                                       "space on its disk\n",
                                                       what));
        });
  }
};

// Never destroyed: other static destructors may log messages.
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
    file = std::make_shared<FileSink>(open_regular_file(path, O_WRONLY | O_CREAT | O_APPEND));
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
