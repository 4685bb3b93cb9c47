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
#include "decode/generate.h"
#include "io/durable_file.h"
#include "model/load.h"
#include "train/run_directory.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSampleTokens = 64;

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
  ReportSamples out{"Newest checkpoint", {}};
  const model::Loaded m = model::load(run, plugin_catalog(a.globals), DType::bf16, backend);
  const text::Tokenizer& tokenizer =
      tokenizer_of_texts(m.opened.directory, m.tokenizer.get(), "leave out --prompt");
  decode::GenerateOptions options{.max_new_tokens = kSampleTokens, .end_tokens = m.end_tokens()};
  options.sampler.temperature = 0;
  for (const std::string& prompt : a.texts("prompt")) {
    const std::vector<std::int32_t> ids = tokenizer.encode(prompt);
    decode::Session session(m.model(), m.weights.pointers(),
                            {.capacity = static_cast<std::int64_t>(ids.size()) + kSampleTokens},
                            backend);
    out.samples.emplace_back(
        prompt, decode::generate(session, ids, &tokenizer, options, [](std::string_view) {}).text);
  }
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
  for (const ReportCurve& curve : report.curves)
    if (curve.name == "perf/step_seconds") {
      double sum = 0;
      for (const ReportPoint& p : curve.points) sum += p.value;
      report.facts.emplace_back("time in steps", fmt::format("{:.3g} s", sum));
    }
  report.facts.emplace_back("machine of this report",
                            fmt::format("{}, {}", processor_name(), machine_text(machine.device)));
  report.samples = read_samples(metrics);
  if (a.has("prompt")) report.samples.push_back(samples_of(a, run, machine.backend));
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
              "of the newest checkpoint, the settings and the log, in RUN_DIR/report.html. The "
              "page needs no network "
              "and nothing beside it.",
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
