// lamina data build: makes the token stores of a run file.
#include <fmt/format.h>
#include <sys/resource.h>

#include "cli/data/store_progress.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/signals.h"
#include "cli/shell/status_line.h"
#include "cli/shell/units.h"
#include "config/run_config.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "data/load.h"
#include "device/workers.h"
#include "model/training.h"
#include "train/loop/output_folders.h"
#include "train/loop/run.h"

namespace lamina::cli {
namespace {

struct Built {
  std::vector<data::StoredTokens> stores;
  double seconds = 0, cpu_seconds = 0;
  std::uint64_t num_bytes = 0;  // tokenized by this command
  int num_threads = 1;
  bool is_pairs = false;  // of answers, each a document

  double bytes_per_second() const { return static_cast<double>(num_bytes) / seconds; }
  // Reading, hashing and writing included. CPU time, so other programs do not count.
  double bytes_per_cpu_second() const { return static_cast<double>(num_bytes) / cpu_seconds; }
};

// CPU seconds of all threads of this process.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::uint64_t bytes_of(const data::StoredTokens& store) {
  std::uint64_t bytes = 0;
  for (const data::TokenSource& source : store.sources) bytes += source.counts.num_bytes;
  return bytes;
}

std::string as_text(const Built& built) {
  std::string out;
  for (const data::StoredTokens& store : built.stores) {
    const auto documents = static_cast<std::int64_t>(store.view.num_documents());
    out += fmt::format(
        "{}: {} of {}, {}\n", store.path,
        number_of(static_cast<std::int64_t>(store.view.tokens.size()), "token"),
        built.is_pairs ? number_of(documents / 2, "pair") : number_of(documents, "document"),
        store.was_made ? "made now" : "already built");
    for (const data::TokenSource& source : store.sources)
      for (const data::BadRecord& record : source.bad_records)
        out += fmt::format("skipped {}: {}\n", record.where, record.what);
  }
  if (built.num_bytes > 0)
    out +=
        fmt::format("{} in {}: {} per second, {} per second and core\n",
                    bytes_text(static_cast<double>(built.num_bytes)), duration_text(built.seconds),
                    bytes_text(built.bytes_per_second()), bytes_text(built.bytes_per_cpu_second()));
  return out;
}

std::string as_json(const Built& built) {
  JsonWriter json(2);
  json.begin_object().key("stores").begin_array();
  for (const data::StoredTokens& store : built.stores) {
    std::uint64_t bad = 0;
    for (const data::TokenSource& source : store.sources) bad += source.num_bad_records;
    json.begin_object().key("path").value(store.path).key("made").value(store.was_made);
    json.key("tokens").value(store.view.tokens.size());
    json.key("documents").value(store.view.num_documents()).key("bytes").value(bytes_of(store));
    json.key("bad_records").value(bad).end_object();
  }
  json.end_array().key("seconds").value(built.seconds).key("threads").value(built.num_threads);
  json.key("cpu_seconds").value(built.cpu_seconds).key("bytes_per_second");
  json.value(built.num_bytes > 0 ? built.bytes_per_second() : 0.0).key("bytes_per_cpu_second");
  json.value(built.num_bytes > 0 ? built.bytes_per_cpu_second() : 0.0);
  return json.end_object().text() + "\n";
}

int run_build(const Arguments& a, const Device& device) {
  catch_stop_signals();
  const config::RunConfig c =
      config::load_run(a.positionals[0], {a.texts("set"), config::process_environment()});
  train::check_output_folders(c);
  device.use_threads(a.globals.threads ? a.globals.threads : c.run.threads);
  const config::DataSection section = model::data_section(c);
  const auto tokenizer = data::load_tokenizer(section);
  const std::int64_t vocab_size = model::data_vocab_size(c, plugin_catalog(a.globals), *tokenizer);
  Built built{.num_threads = device.num_threads(), .is_pairs = c.data.form == "preference"};
  const Stopwatch watch;
  const double cpu_before = cpu_seconds();
  try {
    StatusLine display(a.globals.quiet, a.globals.color);
    const auto show = [&](const data::StoreProgress& progress) {
      display.show(progress.bytes_done == progress.num_bytes,
                   [&](double seconds) { return progress_line(progress, seconds); });
    };
    built.stores = train::with_data_places(c, [&] {
      return data::build_stores(
          section, *tokenizer, vocab_size,
          {.between = end_if_asked, .workers = device::workers(device), .progress = show});
    });
  } catch (const StopAsked&) {
    log::info("interrupted; run the same command again to resume");
    return static_cast<int>(ExitCode::resumable);
  }
  built.seconds = watch.seconds();
  built.cpu_seconds = cpu_seconds() - cpu_before;
  for (const data::StoredTokens& store : built.stores)
    if (store.was_made) built.num_bytes += bytes_of(store);
  print(a.flag("json") ? as_json(built) : as_text(built));
  return 0;
}

}  // namespace

Command data_build_command() {
  return {.name = "data build",
          .summary = "tokenizes the data of a run file into stores that runs map",
          .details =
              "Training does the same before its first step; this command does it ahead of time. A "
              "store is used again if the bytes of its files, its tokenizer and the settings of "
              "documents are the same. After Ctrl-C or a kill the same command resumes.",
          .options = {set_option(), json_option()},
          .positionals = {{.name = "RUN.toml", .doc = "The run file."}},
          .examples = {"lamina data build configs/train/quickstart.toml",
                       "lamina data build run.toml --set data.store=/fast/tokens"},
          .run = run_build};
}

}  // namespace lamina::cli
