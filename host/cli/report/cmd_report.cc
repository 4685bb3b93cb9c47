// lamina report: writes runs as one HTML page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "cli/bench/bench_text.h"
#include "cli/generate/prompt.h"
#include "cli/report/report_page.h"
#include "cli/shell/command.h"
#include "cli/shell/output_file.h"
#include "cli/shell/plugins.h"
#include "cli/shell/text.h"
#include "cli/shell/units.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "core/system_error.h"
#include "io/durable_file.h"
#include "model/load.h"
#include "model/text_samples.h"
#include "train/loop/run_directory.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

std::string text_or_nothing(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) || error ? read_file(path, ExitCode::checkpoint) : "";
}

// The processor's name from the kernel; empty if unknown.
std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "";
}

// Continuations by the newest checkpoint. REQUIRES: there are prompts.
ReportSamples samples_of(const Arguments& a, const std::string& run, const Backend& backend) {
  constexpr DType kDType = DType::bf16;
  const model::Loaded m = model::load(run, plugin_catalog(a.globals), kDType, backend);
  model::TextSamples samples(
      {.prompts = a.texts("prompt"),
       .dtype = kDType,
       .end_tokens = m.end_tokens(),
       .place = "--prompt",
       .instead = "remove --prompt"},
      m.model(), tokenizer_of_texts(m.opened.directory, m.tokenizer.get(), "remove --prompt"),
      backend);
  ReportSamples out{"Newest checkpoint", {}};
  auto made = samples.sample(m.weights.pointers());
  for (train::Sample& sample : *made)
    out.samples.emplace_back(std::move(sample.prompt), std::move(sample.text));
  return out;
}

// The sum over all points of the curve with that name; 0 without one.
double sum_of(const std::vector<ReportCurve>& curves, std::string_view name) {
  double out = 0;
  for (const ReportCurve& curve : curves)
    if (curve.name == name)
      for (const ReportPoint& point : curve.points) out += point.value;
  return out;
}

// "1.82075 (step 4000)"
std::string value_at(const ReportPoint& point) {
  const bool is_count = point.value == std::floor(point.value);
  return is_count ? fmt::format("{:.0f} (step {})", point.value, point.step)
                  : fmt::format("{:.6g} (step {})", point.value, point.step);
}

std::vector<std::pair<std::string, std::string>> facts_of(const std::vector<ReportCurve>& curves) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const ReportCurve& curve : curves) {
    const ReportPoint& last = curve.points.back();
    if (curve.name == "train/loss" || curve.name == "eval/loss" || curve.name == "train/tokens")
      out.emplace_back("last " + curve.name, value_at(last));
    if (curve.name != "eval/loss") continue;
    const ReportPoint& best = *std::ranges::min_element(curve.points, {}, &ReportPoint::value);
    out.emplace_back("best eval/loss", value_at(best));
  }
  if (const double steps = sum_of(curves, "perf/step_seconds"); steps > 0) {
    std::string time = fmt::format("{:.3g} s", steps);
    if (const double rows = sum_of(curves, "perf/data_seconds"); rows > 0)
      time += fmt::format(", {:.2g} % of it reading rows", 100 * rows / steps);
    out.emplace_back("time in steps", std::move(time));
  }
  return out;
}

// Metrics are synced before a checkpoint is written, so they end before it only if lines were lost.
void warn_of_lost_lines(const std::string& run, const std::vector<ReportCurve>& curves) {
  double last = 0;
  for (const ReportCurve& curve : curves) last = std::max(last, curve.points.back().step);
  const std::vector<train::CheckpointEntry> checkpoints = train::list_checkpoints(run);
  if (!checkpoints.empty() && static_cast<double>(checkpoints.back().step) > last)
    log::warning(
        "{} ends at step {}, but there is a checkpoint of step {}; the curves lack the steps "
        "between",
        train::metrics_path(run), last, checkpoints.back().step);
}

ReportRun read_run(const Arguments& a, const std::string& run, const Backend& backend) {
  const std::string metrics = train::metrics_path(run);
  std::error_code error;
  if (!fs::exists(run, error) && !error)
    throw UserError(ExitCode::checkpoint, {run,
                                           "no such directory; expected a run directory",
                                           {"`lamina train` prints it at the start as 'out'"}});
  if (!fs::exists(metrics, error) && !error)
    throw UserError(ExitCode::checkpoint, {run,
                                           "has no metrics.jsonl; expected a run directory",
                                           {"`lamina train` prints it at the start as 'out'"}});
  ReportMetrics read = read_metrics(metrics);
  ReportRun out;
  out.facts = facts_of(read.curves);
  out.curves = std::move(read.curves);
  out.samples = std::move(read.samples);
  if (a.has("prompt")) out.samples.push_back(samples_of(a, run, backend));
  try {
    out.bad_steps = read_bad_steps(run);
    warn_of_lost_lines(run, out.curves);
  } catch (const fs::filesystem_error& e) {
    throw DeviceError(ExitCode::checkpoint,
                      {run,
                       fmt::format("cannot be read: {}", system_error_text(e.code().value())),
                       {"check the disk and the permissions of the directory"}});
  }
  out.settings = text_or_nothing(run + "/config.toml");
  out.log = text_or_nothing(run + "/log.txt");
  return out;
}

fs::path real_path(const std::string& path) {
  std::error_code error;
  const fs::path out = fs::weakly_canonical(path, error);
  return error ? fs::path(path) : out;
}

// The names of the directories, or their paths if two directories have the same name.
std::vector<std::string> names_of(const std::vector<std::string>& runs) {
  std::vector<std::string> out;
  for (const std::string& run : runs) out.push_back(printable(real_path(run).filename().string()));
  std::vector<std::string> sorted = out;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) == sorted.end()) return out;
  out.clear();
  for (const std::string& run : runs) out.push_back(printable(run));
  return out;
}

void require_different(const std::vector<std::string>& runs) {
  std::vector<fs::path> seen;
  for (const std::string& run : runs) {
    seen.push_back(real_path(run));
    if (std::ranges::count(seen, seen.back()) > 1)
      throw UserError(ExitCode::usage,
                      {"report", fmt::format("got the run '{}' twice", run), {"name it once"}});
  }
}

bool is_report_page(const std::string& path) {
  return read_beginning(path, ExitCode::usage, kReportPageStart.size()) == kReportPageStart;
}

// Only an earlier page, or an empty file made by mktemp, is overwritten, so that a mistyped name
// costs nothing.
io::Destination check_page(const std::string& path) {
  io::Destination out = check_own_output_file(path);
  std::error_code error;
  if (out.in_place || !fs::exists(out.path, error)) return out;
  if (fs::file_size(out.path, error) == 0 && !error) return check_output_file(path);
  if (!is_report_page(out.path))
    throw UserError(ExitCode::usage,
                    {path,
                     "exists and is not a page of `lamina report`; only such a page is overwritten",
                     {"choose another name, or remove the file"}});
  return out;
}

int run_report(const Arguments& a, const Device& device) {
  const std::vector<std::string>& paths = a.positionals;
  require_different(paths);
  if (paths.size() > 1 && !a.has("output"))
    throw UserError(
        ExitCode::usage,
        {"report",
         fmt::format("got {} runs; expected the name of the page as well", paths.size()),
         {"add -o FILE.html"}});
  const std::string path = a.has("output") ? a.text("output") : paths[0] + "/report.html";
  std::error_code error;
  const bool is_run = fs::exists(paths[0], error);  // else the error of reading it is clearer
  const bool in_place = is_run && check_page(path).in_place;
  device.use_threads(a.globals.threads);
  std::vector<ReportRun> runs;
  for (const std::string& run : paths) runs.push_back(read_run(a, run, device.backend()));
  const std::vector<std::string> names = names_of(paths);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name = names[i];
  io::write_durably(path,
                    report_page(runs, fmt::format("Written by lamina report on {}, {}.",
                                                  processor_name(), machine_text(device))),
                    a.has("output") ? io::NamedBy::user : io::NamedBy::program);
  if (!in_place) print(path + "\n");  // stdout may be the page
  return 0;
}

}  // namespace

Command report_command() {
  return {
      .name = "report",
      .summary = "writes runs as one HTML page",
      .details =
          "Curves of every number in metrics.jsonl, training and validation together, samples of "
          "train.sample_every_steps and of the newest checkpoint, steps that were skipped or had a "
          "loss or gradient that is not finite, the settings and the log, in RUN_DIR/report.html. "
          "Several runs are drawn "
          "into the same plots, with the settings in which they differ. The page needs no network "
          "and no other files. Only an earlier page is overwritten.",
      .options = {{.key = {.name = "prompt",
                           .type = Type::string,
                           .doc = "Continue this text greedily as a sample; may be "
                                  "repeated."},
                   .short_name = 'p',
                   .value = "TEXT",
                   .repeatable = true},
                  {.key = {.name = "output",
                           .aliases = {"to"},
                           .type = Type::string,
                           .doc = "Write the page here instead.",
                           .path = true},
                   .short_name = 'o',
                   .value = "FILE"}},
      .positionals = {{.name = "RUN_DIR", .doc = "The run directory.", .repeatable = true}},
      .examples = {"lamina report build/quickstart/run -p \"In the beginning\"",
                   "lamina report runs/a runs/b -o compared.html"},
      .run = run_report};
}

}  // namespace lamina::cli
