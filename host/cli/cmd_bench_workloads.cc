// lamina bench decode | prefill | train: how much of the machine a workload gets, in one run.
#include <fmt/format.h>

#include <algorithm>

#include "bench/workloads.h"
#include "cli/bench_text.h"
#include "cli/commands.h"
#include "cli/plugins.h"
#include "cli/terminal.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "decoder/call_limits.h"
#include "model/open.h"

namespace lamina::cli {
namespace {

std::string as_text(const bench::BenchResult& r, const bench::Device& device) {
  const double limit = r.median().limit;
  std::string text =
      r.reads
          ? fmt::format("{} read between tokens (at best {}), {:.4g} MB per token",
                        bandwidth_text(limit), bandwidth_text(r.best_read),
                        r.bytes_per_token * 1e-6)
          : fmt::format("{}, {:.4g} GFLOP per token", flops_text(limit), r.flops_per_token * 1e-9);
  auto [min, max] = std::ranges::minmax(r.repeats, {}, [&](auto& one) { return r.ratio(one); });
  return fmt::format(
      "machine   {}\nspeed     {:.5g} tok/s, {} tokens in {:.3f} s\nlimit     {:.5g} tok/s: {}\n"
      "ratio     {:.3f}, median of {} from {:.3f} to {:.3f}\n",
      machine_text(device), r.tokens_per_second(), r.tokens, r.median().seconds,
      r.limit_tokens_per_second(), text, r.ratio(), r.repeats.size(), r.ratio(min), r.ratio(max));
}

std::string as_json(const Arguments& a, std::string_view workload, const bench::BenchResult& r,
                    const bench::Device& device) {
  JsonWriter json(2);
  json.begin_object().key("workload").value(workload).key("model").value(a.text("model"));
  if (!a.texts("set").empty()) {
    json.key("set").begin_array();
    for (const std::string& set : a.texts("set")) json.value(set);
    json.end_array();
  }
  json.key("dtype").value(a.text("dtype")).key("batch").value(a.integer("batch"));
  json.key("tokens").value(a.integer("tokens")).key("threads").value(device.num_threads());
  json.key("isa").value(device.isa());
  json.key("tokens_per_second").value(r.tokens_per_second());
  json.key("limit_tokens_per_second").value(r.limit_tokens_per_second());
  json.key("ratio").value(r.ratio());
  if (r.reads) {
    json.key("read_bandwidth_bytes_per_second").value(r.median().limit);
    json.key("best_read_bandwidth_bytes_per_second").value(r.best_read);
  } else {
    json.key("peak_flops_per_second").value(r.median().limit);
  }
  if (r.bytes_per_token > 0) json.key("bytes_per_token").value(r.bytes_per_token);
  json.key("flops_per_token").value(r.flops_per_token);
  json.key("seconds").value(r.median().seconds).key("seconds_of_repeats").begin_array();
  for (const bench::BenchResult::Repeat& one : r.repeats) json.value(one.seconds);
  json.end_array().key("ratio_of_repeats").begin_array();
  for (const bench::BenchResult::Repeat& one : r.repeats) json.value(r.ratio(one));
  return json.end_array().end_object().text() + "\n";
}

constexpr std::string_view kLazyEmbeddings = "lazy-embeddings";  // of bench train

using Workload = bench::BenchResult (*)(const decoder::Model&, const bench::BenchOptions&,
                                        const Backend&, const bench::Device&);

int run_workload(const Arguments& a, const Machine& machine, std::string_view name,
                 Workload workload) {
  machine.use_threads(a.globals.threads);
  model::OpenedModel opened =
      model::open(a.text("model"), plugin_catalog(a.globals),
                  {.compress_tokens = decoder::uncompressed_tokens}, a.texts("set"));
  bench::BenchOptions options{.directory = opened.directory,
                              .dtype = *parse_dtype(a.text("dtype")),
                              .batch = a.integer("batch"),
                              .tokens = a.integer("tokens"),
                              .repeats = static_cast<int>(a.integer("repeats"))};
  options.lazy_embeddings = workload == bench::bench_train && a.flag(std::string(kLazyEmbeddings));
  if (a.flag("profile")) options.profile = [](const std::string& table) { log::info("{}", table); };
  bench::BenchResult result = workload(*opened.model, options, machine.backend, machine.device);
  print(a.flag("json") ? as_json(a, name, result, machine.device)
                       : as_text(result, machine.device));
  return 0;
}

Command workload_command(std::string name, std::string summary, std::string details,
                         std::int64_t tokens, std::string example, Workload workload) {
  Option model{.key = {.name = "model",
                       .type = Type::string,
                       .doc = "A model file, or a directory with weights; without any, random ones "
                              "are used."},
               .short_name = 'm',
               .value = "FILE|DIR"};
  model.key.required = true;
  return {.name = "bench " + name,
          .summary = std::move(summary),
          .details = std::move(details),
          .options = {model,
                      dtype_option(),
                      integer_option("batch", 'b', 1, "Sequences side by side.", 1,
                                     decoder::kMaxTokens),
                      integer_option("tokens", 'n', tokens, "Tokens per sequence.", 1,
                                     decoder::kMaxTokens),
                      integer_option("repeats", 0, 3, "Repeats; the median is reported.", 1, 1000),
                      {.key = {.name = "profile",
                               .type = Type::boolean,
                               .doc = "Print the time of every kernel to stderr."}},
                      set_option(),
                      json_option()},
          .examples = {std::move(example)},
          .run = [name, workload](const Arguments& a, const Machine& machine) {
            return run_workload(a, machine, name, workload);
          }};
}

}  // namespace

Command bench_decode_command() {
  return workload_command(
      "decode", "measures writing text against the machine's read bandwidth",
      "The limit is the read bandwidth, measured between the tokens, over the bytes that a "
      "token must read: every weight once for the whole batch, one row of each lookup-only "
      "table, and the decode state.",
      48, "lamina bench decode --model configs/models/bench-0.6b.toml --json", bench::bench_decode);
}

Command bench_prefill_command() {
  return workload_command(
      "prefill", "measures reading a prompt against the machine's peak",
      "The limit is the peak of the type, measured in the same run, over the operations of the "
      "matrix products (2 M N K each) and of attention (causal: half).",
      512, "lamina bench prefill --model configs/models/bench-0.6b.toml --tokens 512",
      bench::bench_prefill);
}

Command bench_train_command() {
  Command out = workload_command(
      "train", "measures an optimizer step against the machine's peak",
      "The limit is the peak of the type, measured in the same run, over three times the "
      "operations of a forward pass: products (2 M N K each, the head with them) and attention "
      "(causal: half), plus twice that for the backward pass. Recomputation does not count. The "
      "step is timed from tokens to updated weights, after one warm-up step.",
      256, "lamina bench train --model configs/models/gpt2-124m.toml --tokens 256",
      bench::bench_train);
  out.options.push_back({.key = {.name = std::string(kLazyEmbeddings),
                                 .type = Type::boolean,
                                 .doc = "Update only the table rows that were looked up, as "
                                        "optimizer.lazy_embeddings does."}});
  return out;
}

}  // namespace lamina::cli
