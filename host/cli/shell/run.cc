// Dispatches to the command; errors become text and exit codes only here.
#include "cli/shell/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <new>

#include "cli/shell/exit_codes.h"
#include "cli/shell/help.h"
#include "cli/shell/last_words.h"
#include "cli/shell/memory_advice.h"
#include "cli/shell/parse.h"
#include "cli/shell/version.h"
#include "config/run_config.h"
#include "core/broken_pipe.h"
#include "core/error.h"
#include "core/hung_device.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "core/out_of_memory.h"
#include "core/printable.h"
#include "core/system_error.h"
#include "core/write_all.h"
#include "device/connect.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kBrokenPipe = 128 + 13;  // the code that a shell reports for death by SIGPIPE

std::string json_error(ExitCode code, const ErrorText& text) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("code").value(static_cast<int>(code)).key("class").value(name_of(code));
  json.key("where").value(text.where).key("what").value(text.what).key("notes").begin_array();
  for (const std::string& note : text.notes) json.value(note);
  return json.end_array().end_object().end_object().text() + "\n";
}

// Reports an error and returns its exit code. Line feeds in the error's parts come from outside.
int report(ExitCode code, const ErrorText& text, ColorMode color, bool json,
           bool internal = false) {
  const auto whole = [](const std::string& part) { return printable(part, part.size()); };
  std::string formatted =
      text.where.empty() ? whole(text.what) : whole(text.where) + ": " + whole(text.what);
  for (const std::string& note : text.notes) formatted += "\n  " + whole(note);
  const char* label = internal ? "internal error:" : "error:";
  (void)write_all(STDERR_FILENO, describe_terminal(STDERR_FILENO, color).color
                                     ? fmt::format("\033[1;31m{}\033[0m {}\n", label, formatted)
                                     : fmt::format("{} {}\n", label, formatted));
  try {
    if (json) print(json_error(code, text));
  } catch (const std::exception&) {
    // stdout failed; stderr has the message.
  }
  return static_cast<int>(code);
}

int report_plain(ExitCode code, std::string what, ColorMode color, bool json) {
  ErrorText text{"", std::move(what), {}};
  return report(code, text, color, json);
}

// Returns the first directory on the way to a path that may not be entered; empty if there is none.
// Errors name it, because the rest of the path may be lamina's own.
fs::path closed_directory(const fs::path& path) {
  fs::path so_far;
  for (const fs::path& part : path.parent_path()) {
    so_far /= part;
    if (::access(so_far.c_str(), X_OK) != 0) return errno == EACCES ? so_far : fs::path();
  }
  return {};
}

ErrorText file_system_text(const fs::filesystem_error& e) {
  const std::string reason = system_error_text(e.code().value());
  std::error_code gone;
  (void)fs::current_path(gone);
  if (gone && e.code() == gone && e.path1().is_relative())
    return {"the current directory",
            "cannot be accessed: " + reason,
            {"it may have been removed: go to another one"}};
  if (e.code() == std::errc::permission_denied)
    if (const fs::path closed = closed_directory(e.path1()); !closed.empty())
      return {closed.string(), "cannot be entered: " + reason, {"check its permissions"}};
  ErrorText out{
      e.path1().empty() ? "file system" : e.path1().string(), "cannot be accessed: " + reason, {}};
  if (e.code() == std::errc::too_many_files_open)
    out.notes.emplace_back(kRaiseOpenFiles);
  else if (e.code() == std::errc::permission_denied ||
           e.code() == std::errc::too_many_symbolic_link_levels)
    out.notes.emplace_back("check the path and its permissions");
  return out;
}

// Runs `action`; returns an exit code in every case, or throws std::bad_alloc.
template <typename Action>
int reported(ColorMode color, bool json, Action action) {
  try {
    return action();
  } catch (const BrokenPipe&) {
    return kBrokenPipe;
  } catch (const Error& e) {
    if (memory_ran_out() && e.code() != ExitCode::memory) throw std::bad_alloc();
    return report(e.code(), e.text(), color, json,
                  dynamic_cast<const InternalError*>(&e) != nullptr);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::filesystem::filesystem_error& e) {
    const bool memory = e.code() == std::errc::not_enough_memory;
    return report(memory ? ExitCode::memory : ExitCode::checkpoint, file_system_text(e), color,
                  json);
  } catch (const std::exception& e) {
    return report_plain(ExitCode::unclassified, e.what(), color, json);
  }
}

// Likewise, also if the text of an error takes more memory than is left.
template <typename Action>
int guarded(ColorMode color, bool json, Action action) {
  try {
    return reported(color, json, action);
  } catch (const std::bad_alloc&) {
    return report_out_of_memory(json);
  }
}

std::string version_text(bool json) {
  if (!json) return version_line() + "\n";
  JsonWriter out;
  out.begin_object().key("name").value("lamina").key("version").value(version().program);
  return out.key("revision").value(version().revision).end_object().text() + "\n";
}

void set_log_level(const Globals& globals) {
  if (globals.quiet) log::set_level(log::Level::warning);
  if (globals.verbosity > 0) log::set_level(log::Level::debug);
}

bool takes_device(const Command& command) {
  return std::ranges::any_of(command.options,
                             [](const Option& option) { return option.key.name == "device"; });
}

// The device of --device; the CPU for commands that do not take it.
const Device& device_of(const Request& request) {
  if (!takes_device(*request.command)) return device::open("cpu");
  const std::string& name = request.arguments.text("device");
  if (name.find(',') == name.npos) {
    const Device& device = device::open(name);
    if (!request.command->takes_described_devices) require_computing(device);
    return device;
  }
  if (!request.command->takes_several_devices)
    throw UserError(ExitCode::usage, {"--device",
                                      fmt::format("got '{}'; `lamina {}` computes on one device",
                                                  name, request.command->name),
                                      {"only `lamina train` uses several GPUs"}});
  return *device::open_all(name).front();
}

// Runs the command on its device. A GPU that --device auto chose is named, and is left for the CPU
// if it has too little memory.
int run_command(const Request& request) {
  const auto run = [&](const Device& device) {
    try {
      return request.command->run(request.arguments, device);
    } catch (const OutOfMemory& error) {
      ErrorText text = error.text();
      text.notes.insert(text.notes.begin(), memory_advice(*request.command));
      throw OutOfMemory(std::move(text));
    }
  };
  const Device& device = device_of(request);
  if (!takes_device(*request.command) || request.arguments.text("device") != "auto" ||
      device.name() == "cpu")
    return run(device);
  log::info("device {} ({}), by --device auto", device.name(), device.isa());
  try {
    return run(device);
  } catch (const DeviceTooSmall& e) {
    const std::string reason = fmt::format("{} {}", e.text().where, e.text().what);
    device::use_cpu_for_auto(reason);
    log::warning("{}; --device auto takes the CPU", reason);
  }
  return run(device_of(request));
}

int perform(const std::vector<Command>& commands, const Request& request) {
  switch (request.kind) {
    case Request::Kind::help:
      print(request.command         ? command_help(*request.command)
            : request.group.empty() ? program_help(commands)
                                    : group_help(commands, request.group));
      return 0;
    case Request::Kind::version:
      print(version_text(request.json));
      return 0;
    case Request::Kind::nothing:
      (void)write_all(STDERR_FILENO, request.group.empty() ? program_help(commands)
                                                           : group_help(commands, request.group));
      return static_cast<int>(ExitCode::usage);
    case Request::Kind::run:
      set_log_level(request.arguments.globals);
      config::check_environment(config::process_environment());
      return run_command(request);
  }
  return static_cast<int>(ExitCode::unclassified);
}

// How the error of a hung device is reported, by a thread that has no request.
std::atomic<ColorMode> color_of_report{ColorMode::automatic};
std::atomic<bool> report_is_json{false};

void report_like_errors(ColorMode color, bool json) {
  color_of_report = color;
  report_is_json = json;
  report_hung_device_by([](const Error& error) {
    report(error.code(), error.text(), color_of_report, report_is_json);
  });
}

bool asks_for_json(const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (word == "--" || word == "--json") return word == "--json";
  return false;
}

}  // namespace

int run_program(const std::vector<Command>& commands, const std::vector<std::string>& words) {
  Request request;
  bool parsed = false;
  int code = guarded(ColorMode::automatic, asks_for_json(words), [&] {
    request = parse_command_line(commands, words);
    parsed = true;
    return 0;
  });
  if (!parsed) return code;
  report_like_errors(request.arguments.globals.color, request.json);
  return guarded(request.arguments.globals.color, request.json,
                 [&] { return perform(commands, request); });
}

}  // namespace lamina::cli
