#include "cli/plan/dry_run.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "cli/plan/device_memory.h"
#include "cli/plan/memory_rows.h"
#include "cli/shell/text.h"
#include "cli/shell/units.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "train/loop/run_directory.h"
#include "train/optimizer/train_state.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

std::string bytes(std::uint64_t n) { return bytes_text(static_cast<double>(n)); }

std::string memory_text(const DryRun& found, DType compute) {
  constexpr double kColumns = 32;
  auto rows = memory_rows(found.plan.memory, compute);
  rows.emplace_back("temporaries of a step", found.plan.step_bytes);
  if (found.plan.validation_bytes > 0)
    rows.emplace_back("of a validation", found.plan.validation_bytes);
  if (found.plan.transfer_bytes > 0)
    rows.emplace_back("inputs and losses", found.plan.transfer_bytes);
  if (found.data.held_bytes > 0) rows.emplace_back("tokens of the data", found.data.held_bytes);
  rows.emplace_back("the program", found.program_bytes);
  const auto all = static_cast<double>(found.memory_bytes());
  std::string out = "memory\n";
  for (const auto& [name, n] : rows) {
    const std::string bar(
        static_cast<std::size_t>(std::lround(static_cast<double>(n) / all * kColumns)), '#');
    out += fmt::format("  {:<30} {:>9}{}{}\n", name, bytes(n), bar.empty() ? "" : "  ", bar);
  }
  out += fmt::format("  {:<30} {:>9}  of {} available\n", "at most in all",
                     bytes(found.memory_bytes()), bytes(found.available_bytes));
  const MemoryNeed on_host = train_host_need(found.plan);
  if (on_host.empty()) return out;
  out += found.num_devices > 1
             ? fmt::format("pinned host memory of {} devices\n", found.num_devices)
             : "pinned host memory\n";
  for (const auto& [name, n] : on_host)
    out += fmt::format("  {:<30} {:>9}\n", name, bytes(n * found.num_devices));
  return out + fmt::format("  {:<30} {:>9}  of {} available\n", "in all", bytes(found.host_bytes()),
                           bytes(found.available_host_bytes));
}

// Two digits: "0.31", "1.3", "310", "12,000".
std::string times_text(double times) {
  if (times < 99.5) return fmt::format("{:.2g}", times);
  const double unit = std::pow(10, std::floor(std::log10(times)) - 1);
  return thousands_text(std::llround(std::round(times / unit) * unit));
}

// Returns eg "data    3 files, 12.4 MiB: about 3.10M tokens, read 1.3 times; 5.92 MiB in
// build/tokens, mapped".
std::string data_text(const data::DataEstimate& data, const config::RunConfig& run) {
  std::string out =
      fmt::format("data    {} file{}, {}: {} tokens", data.num_files,
                  data.num_files == 1 ? "" : "s", bytes(data.num_bytes),
                  data.is_whole ? thousands_text(static_cast<std::int64_t>(data.num_tokens))
                                : "about " + count_text(static_cast<double>(data.num_tokens)));
  if (data.num_tokens > 0 && run.data.weights.empty()) {
    const double held_out = run.data.validation.empty() ? run.data.validation_fraction : 0;
    const auto read = static_cast<double>(run.train.steps * run.train.batch_size) *
                      static_cast<double>(run.data.sequence_length);
    out += fmt::format(", read {} times",
                       times_text(read / (static_cast<double>(data.num_tokens) * (1 - held_out))));
  }
  if (data.stored_bytes > 0)
    out += fmt::format("; {} in {}, mapped", bytes(data.stored_bytes), run.data.store);
  return out + "\n";
}

// Free bytes of the file system that will contain `path`; nothing if unknown.
std::optional<std::uint64_t> free_bytes(fs::path path) {
  std::error_code ec;
  path = fs::absolute(path, ec);
  while (!fs::exists(path, ec) && path != path.parent_path()) path = path.parent_path();
  const fs::space_info space = fs::space(path, ec);
  return ec ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

std::uint64_t disk_bytes(const DryRun& found) {
  return static_cast<std::uint64_t>(found.plan.checkpoint_bytes) *
         static_cast<std::uint64_t>(found.plan.num_checkpoints);
}

}  // namespace

void warn_of_disk(const decoder::Model& model, const config::RunConfig& run) {
  const auto free = free_bytes(run.run.out);
  const std::int64_t more =
      inspect::max_checkpoints(run) - std::ssize(train::list_checkpoints(run.run.out));
  if (!free || more <= 0) return;
  const train::TrainBytes state = train::train_bytes(model.parameters(), run.train.dtype, false, {},
                                                     run.optimizer, train::kept_average(run.train));
  const std::uint64_t need = state.checkpoint() * static_cast<std::uint64_t>(more);
  if (*free >= need) return;
  log::warning(
      "{}: {} are free for checkpoints, which need up to {}; free space, choose another run.out, "
      "or keep fewer with checkpoint.keep",
      run.run.out, bytes(*free), bytes(need));
}

std::string dry_run_text(const DryRun& found, const decoder::Model& model,
                         const config::RunConfig& run) {
  const std::int64_t tokens = run.train.batch_size * run.data.sequence_length;
  const auto checkpoint = static_cast<std::uint64_t>(found.plan.checkpoint_bytes);
  std::string out = fmt::format(
      "model   {}: {} parameters\nrun     {} of {} tokens ({} x {} rows of {}), {} in all; "
      "{}, remat {}\n",
      model.family().name(), thousands_text(model.parameters().num_elements()),
      number_of(run.train.steps, "step"), thousands_text(tokens),
      run.train.batch_size / run.train.microbatch_size, run.train.microbatch_size,
      run.data.sequence_length, count_text(static_cast<double>(tokens * run.train.steps)),
      long_name(run.train.dtype), run.train.remat);
  const auto free = free_bytes(run.run.out);
  return out + data_text(found.data, run) + memory_text(found, run.train.dtype) +
         fmt::format("disk    {} per checkpoint, at most {} at once: {}{} in {}\n",
                     bytes(checkpoint), found.plan.num_checkpoints, bytes(disk_bytes(found)),
                     free ? fmt::format(" of {} free", bytes(*free)) : "", run.run.out) +
         "nothing was written\n";
}

std::string dry_run_json(const DryRun& found) {
  JsonWriter json(2);
  json.begin_object();
  for (const auto& [name, bytes] : memory_fields(found.plan.memory)) json.key(name).value(bytes);
  json.key("step_bytes").value(found.plan.step_bytes);
  json.key("step_host_bytes").value(found.plan.step_host_bytes);
  json.key("host_bytes").value(found.host_bytes());
  json.key("available_host_bytes").value(found.available_host_bytes);
  json.key("validation_bytes").value(found.plan.validation_bytes);
  json.key("transfer_bytes").value(found.plan.transfer_bytes);
  json.key("data_bytes").value(found.data.held_bytes);
  json.key("program_bytes").value(found.program_bytes);
  json.key("memory_bytes").value(found.memory_bytes());
  json.key("available_bytes").value(found.available_bytes);
  json.key("checkpoint_file_bytes").value(found.plan.checkpoint_bytes);
  json.key("max_checkpoints").value(found.plan.num_checkpoints);
  json.key("data").begin_object().key("files").value(found.data.num_files);
  json.key("file_bytes").value(found.data.num_bytes).key("tokens").value(found.data.num_tokens);
  json.key("exact").value(found.data.is_whole).key("store_bytes").value(found.data.stored_bytes);
  return json.end_object().end_object().text() + "\n";
}

}  // namespace lamina::cli
