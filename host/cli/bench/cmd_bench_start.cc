// lamina bench start: time from exec to the first token, as the user waits for it.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/start_time.h"
#include "cli/bench/bench_text.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/terminal.h"
#include "cli/shell/units.h"
#include "core/error.h"
#include "core/json_writer.h"
#include "core/program_path.h"
#include "model/open.h"

namespace lamina::cli {
namespace {

using bench::StartTime;

std::vector<std::string> decode_command_line(const Arguments& a, const Device& device) {
  std::vector<std::string> out = {
      program_path().string(),   "decode", "-m", a.text("model"), "-p",
      a.text("prompt"),          "-n",     "1",  "--no-stats",    "--device",
      std::string(device.name())};
  if (a.globals.threads) out.insert(out.end(), {"-t", fmt::format("{}", *a.globals.threads)});
  for (const std::string& plugin : a.globals.plugins) out.insert(out.end(), {"--plugin", plugin});
  for (const std::string& folder : a.globals.plugin_folders)
    out.insert(out.end(), {"--plugin-path", folder});
  return out;
}

// Returns the size of the weights. Refuses a model that decode would refuse.
double weight_bytes(const Arguments& a) {
  const model::OpenedModel opened = model::open_weights(a.text("model"), plugin_catalog(a.globals));
  if (!text::has_tokenizer(opened.directory))
    throw UserError(ExitCode::checkpoint, {opened.directory,
                                           "has no tokenizer, so it cannot read the prompt",
                                           {text::tokenizer_advice(opened.directory)}});
  return static_cast<double>(opened.weight_files()->file_bytes());
}

int run_start(const Arguments& a, const Device& device) {
  // Not pinned: the child process would inherit the single CPU.
  device.set_threads(a.globals.threads.value_or(0), /*pinned=*/false);
  const double bytes = weight_bytes(a);
  const std::vector<std::string> words = decode_command_line(a, device);
  bench::time_start(words);  // so that files are in the page cache
  std::vector<double> first, whole, bandwidths;
  bool copies = false;  // weights, to the memory of a GPU
  for (std::int64_t i = 0; i < a.integer("repeats"); ++i) {
    const StartTime one = bench::time_start(words);
    first.push_back(one.first_output);
    whole.push_back(one.whole);
    const double copy = device.copy_bandwidth();
    copies = copy > 0;
    bandwidths.push_back(copies ? copy : device.read_bandwidth());
  }
  const auto median = [](std::vector<double>& values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  const double seconds = median(first), end = median(whole), bandwidth = median(bandwidths);
  const double limit = bytes / bandwidth;
  if (!a.flag("json")) {
    print(fmt::format(
        "machine      {}\nfirst token  {}, median of {} from {} to {}\n"
        "end          {}\nlimit        {}: {}, {:.4g} MB of weights\n"
        "ratio        {:.3g}\n",
        machine_text(device), milliseconds_text(seconds), first.size(),
        milliseconds_text(first.front()), milliseconds_text(first.back()), milliseconds_text(end),
        milliseconds_text(limit), bandwidth_text(bandwidth), 1e-6 * bytes, limit / seconds));
    return 0;
  }
  JsonWriter json(2);
  json.begin_object().key("workload").value("start").key("model").value(a.text("model"));
  json.key("threads").value(device.num_threads()).key("isa").value(device.isa());
  json.key("first_token_seconds").value(seconds).key("end_seconds").value(end);
  json.key("limit_seconds").value(limit).key("ratio").value(limit / seconds);
  json.key(copies ? "copy_bytes_per_second" : "read_bandwidth_bytes_per_second").value(bandwidth);
  json.key("weight_bytes").value(bytes);
  json.key("first_token_seconds_of_repeats").begin_array();
  for (const double one : first) json.value(one);
  print(json.end_array().end_object().text() + "\n");
  return 0;
}

}  // namespace

Command bench_start_command() {
  Option model = text_option("model", 'm', "DIR", "A directory or a GGUF file with weights.");
  model.key.required = true;
  Option prompt = text_option("prompt", 'p', "TEXT", "The prompt.");
  prompt.key.preset = Value("Hello");
  return {.name = "bench start",
          .summary = "measures the time from exec to the first token",
          .details =
              "Runs `lamina decode -n 1` repeatedly and waits for its output: linking, "
              "plugins, vocabulary, graphs, weights, prompt and token. The limit is the time in "
              "which the machine reads the weights once, or copies them to a GPU, at the bandwidth "
              "measured between the repeats. Files are in the page cache.",
          .options = {std::move(model), std::move(prompt),
                      integer_option("repeats", 0, 5, "Repeats; the median is reported.", 1, 1000),
                      device_option(), json_option()},
          .examples = {"lamina bench start -m model"},
          .run = run_start};
}

}  // namespace lamina::cli
