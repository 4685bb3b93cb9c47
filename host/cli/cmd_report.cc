// lamina report: a run as one HTML page.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cli/bench_text.h"
#include "cli/commands.h"
#include "cli/plugins.h"
#include "cli/prompt.h"
#include "cli/report_page.h"
#include "cli/text.h"
#include "cli/units.h"
#include "core/read_file.h"
#include "io/durable_file.h"
#include "model/load.h"
#include "model/text_samples.h"
#include "train/run_directory.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

std::string text_or_nothing(const std::string& path) {
  return fs::exists(path) ? read_file(path, ExitCode::checkpoint) : "";
}

// As the kernel names the processor this runs on; empty where it does not say.
std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "";
}

// Of the newest checkpoint. REQUIRES: there are prompts.
ReportSamples samples_of(const Arguments& a, const std::string& run, const Backend& backend) {
  constexpr DType kDType = DType::bf16;
  const model::Loaded m = model::load(run, plugin_catalog(a.globals), kDType, backend);
  model::TextSamples samples(
      {.prompts = a.texts("prompt"),
       .dtype = kDType,
       .end_tokens = m.end_tokens(),
       .place = "--prompt",
       .instead = "leave out --prompt"},
      m.model(), tokenizer_of_texts(m.opened.directory, m.tokenizer.get(), "leave out --prompt"),
      backend);
  ReportSamples out{"Newest checkpoint", {}};
  for (train::Sample& sample : samples.sample(m.weights.pointers()))
    out.samples.emplace_back(std::move(sample.prompt), std::move(sample.text));
  return out;
}

// Of all points of the curve with that name; 0 without one.
double sum_of(const std::vector<ReportCurve>& curves, std::string_view name) {
  double out = 0;
  for (const ReportCurve& curve : curves)
    if (curve.name == name)
      for (const ReportPoint& point : curve.points) out += point.value;
  return out;
}

int run_report(const Arguments& a, const Machine& machine) {
  machine.use_threads(a.globals.threads);
  const std::string& run = a.positionals[0];
  const std::string metrics = train::metrics_path(run);
  if (!fs::exists(metrics))
    throw UserError(ExitCode::checkpoint,
                    {run,
                     "has no metrics.jsonl; expected the directory of a run",
                     {"`lamina train` says at its start where that is: out"}});
  Report report{.title = "Run " + fs::weakly_canonical(run).filename().string()};
  report.curves = read_curves(metrics);
  for (const ReportCurve& curve : report.curves)
    if (curve.name == "train/loss" || curve.name == "eval/loss" || curve.name == "train/tokens")
      report.facts.emplace_back(
          "last " + curve.name,
          fmt::format("{} (step {})", curve.points.back().text, curve.points.back().step));
  if (const double steps = sum_of(report.curves, "perf/step_seconds"); steps > 0) {
    std::string time = fmt::format("{:.3g} s", steps);
    if (const double rows = sum_of(report.curves, "perf/data_seconds"); rows > 0)
      time += fmt::format(", {:.2g} % of it reading rows", 100 * rows / steps);
    report.facts.emplace_back("time in steps", std::move(time));
  }
  report.facts.emplace_back("machine of this report",
                            fmt::format("{}, {}", processor_name(), machine_text(machine.device)));
  report.samples = read_samples(metrics);
  if (a.has("prompt")) report.samples.push_back(samples_of(a, run, machine.backend));
  report.bad_steps = read_bad_steps(run);
  report.settings = text_or_nothing(run + "/config.toml");
  report.log = text_or_nothing(run + "/log.txt");
  const std::string path = a.has("to") ? a.text("to") : run + "/report.html";
  io::write_durably(path, report_page(report));
  print(path + "\n");
  return 0;
}

}  // namespace

Command report_command() {
  return {.name = "report",
          .summary = "writes a run as one HTML page",
          .details =
              "Curves of every number in metrics.jsonl, samples of train.sample_every_steps and "
              "of the newest checkpoint, steps that were not finite or were left out, the settings "
              "and the log, in RUN_DIR/report.html. The page needs no network and nothing beside "
              "it.",
          .options =
              {{.key = {.name = "prompt",
                        .type = Type::string,
                        .doc = "Go on from this text, greedily, as a sample; may be "
                               "repeated."},
                .short_name = 'p',
                .value = "TEXT",
                .repeatable = true},
               {.key = {.name = "to", .type = Type::string, .doc = "Write the page here instead."},
                .value = "FILE"}},
          .positionals = {{.name = "RUN_DIR", .doc = "The run directory."}},
          .examples = {"lamina report runs/quickstart -p \"In the beginning\""},
          .run = run_report};
}

}  // namespace lamina::cli
