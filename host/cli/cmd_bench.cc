// lamina bench: what the machine can do, and how much of it a workload gets, in one run.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/limits.h"
#include "backends/cpu/threads.h"
#include "cli/bench/compile_time.h"
#include "cli/bench/workloads.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/open_model.h"
#include "cli/units.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "decoder/call_limits.h"

namespace lamina::cli {
namespace {

std::string machine_text() {
  return fmt::format("{} threads, {}", cpu::num_threads(), cpu::name(cpu::best_isa()));
}

std::string flops_text(double flops) { return fmt::format("{:.1f} GFLOP/s", flops * 1e-9); }
std::string bandwidth_text(double bytes) { return fmt::format("{:.1f} GB/s", bytes * 1e-9); }

int run_machine(const Arguments& a) {
  apply_threads(a.globals);
  double read = cpu::measure_read_bandwidth();
  double f32 = cpu::measure_peak_flops(DType::f32), bf16 = cpu::measure_peak_flops(DType::bf16);
  read = std::max(read, cpu::measure_read_bandwidth());
  f32 = std::max(f32, cpu::measure_peak_flops(DType::f32));
  bf16 = std::max(bf16, cpu::measure_peak_flops(DType::bf16));
  if (!a.flag("json")) {
    print(
        fmt::format("machine         {}\nread bandwidth  {}\npeak float32    {}\n"
                    "peak bfloat16   {}\n",
                    machine_text(), bandwidth_text(read), flops_text(f32), flops_text(bf16)));
    return 0;
  }
  JsonWriter json(2);
  json.begin_object().key("workload").value("machine");
  json.key("threads").value(cpu::num_threads()).key("isa").value(cpu::name(cpu::best_isa()));
  json.key("read_bandwidth_bytes_per_second").value(read);
  json.key("peak_flops_per_second").begin_object();
  json.key("float32").value(f32).key("bfloat16").value(bf16).end_object().end_object();
  print(json.text() + "\n");
  return 0;
}

std::string as_text(const BenchResult& r) {
  const double limit = r.median().limit;
  std::string text =
      r.reads
          ? fmt::format("{} read between tokens (at best {}), {:.4g} MB per token",
                        bandwidth_text(limit), bandwidth_text(r.best_read),
                        r.bytes_per_token * 1e-6)
          : fmt::format("{}, {:.4g} GFLOP per token", flops_text(limit), r.flops_per_token * 1e-9);
  auto [least, most] = std::ranges::minmax(r.repeats, {}, [&](auto& one) { return r.ratio(one); });
  return fmt::format(
      "machine   {}\nspeed     {:.5g} tok/s, {} tokens in {:.3f} s\nlimit     {:.5g} tok/s: {}\n"
      "ratio     {:.3f}, median of {} from {:.3f} to {:.3f}\n",
      machine_text(), r.tokens_per_second(), r.tokens, r.median().seconds,
      r.limit_tokens_per_second(), text, r.ratio(), r.repeats.size(), r.ratio(least),
      r.ratio(most));
}

std::string as_json(const Arguments& a, std::string_view workload, const BenchResult& r) {
  JsonWriter json(2);
  json.begin_object().key("workload").value(workload).key("model").value(a.text("model"));
  if (!a.texts("set").empty()) {
    json.key("set").begin_array();
    for (const std::string& set : a.texts("set")) json.value(set);
    json.end_array();
  }
  json.key("dtype").value(a.text("dtype")).key("batch").value(a.integer("batch"));
  json.key("tokens").value(a.integer("tokens")).key("threads").value(cpu::num_threads());
  json.key("isa").value(cpu::name(cpu::best_isa()));
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
  for (const BenchResult::Repeat& one : r.repeats) json.value(one.seconds);
  json.end_array().key("ratio_of_repeats").begin_array();
  for (const BenchResult::Repeat& one : r.repeats) json.value(r.ratio(one));
  return json.end_array().end_object().text() + "\n";
}

constexpr std::string_view kLazyEmbeddings = "lazy-embeddings";  // of bench train

using Workload = BenchResult (*)(const decoder::Model&, const BenchOptions&, const Backend&);

int run_workload(const Arguments& a, std::string_view name, Workload workload) {
  apply_threads(a.globals);
  OpenedModel opened =
      open_model(a.text("model"), a.globals, {.compress_tokens = decoder::uncompressed_tokens},
                 a.texts("set"));
  BenchOptions options{.directory = opened.directory,
                       .dtype = *parse_dtype(a.text("dtype")),
                       .batch = a.integer("batch"),
                       .tokens = a.integer("tokens"),
                       .repeats = static_cast<int>(a.integer("repeats"))};
  options.lazy_embeddings = workload == bench_train && a.flag(std::string(kLazyEmbeddings));
  if (a.flag("profile")) options.profile = [](const std::string& table) { log::info("{}", table); };
  BenchResult result = workload(*opened.model, options, cpu::cpu_backend());
  print(a.flag("json") ? as_json(a, name, result) : as_text(result));
  return 0;
}

constexpr double kMaxCompileSeconds = 0.1;  // of each phase

int run_compile(const Arguments& a) {
  apply_threads(a.globals);
  const CompileOptions options{.dtype = *parse_dtype(a.text("dtype")),
                               .tokens = a.integer("tokens"),
                               .repeats = static_cast<int>(a.integer("repeats"))};
  JsonWriter json(2);
  json.begin_array();
  if (!a.flag("json"))
    print(fmt::format("milliseconds; ratio: {:.0f} over the longest\n{:>8} {:>8} {:>8} {:>7}\n",
                      1e3 * kMaxCompileSeconds, "train", "prefill", "decode", "ratio"));
  for (const std::string& path : a.positionals) {
    require_description(path);
    CompileTimes t = bench_compile(
        [&] {
          return std::move(
              open_model(path, a.globals, {.compress_tokens = decoder::uncompressed_tokens}).model);
        },
        options, cpu::cpu_backend());
    double ratio = kMaxCompileSeconds / std::max({t.train, t.prefill, t.decode});
    if (!a.flag("json")) {
      print(fmt::format("{:8.1f} {:8.1f} {:8.1f} {:7.1f}  {}\n", 1e3 * t.train, 1e3 * t.prefill,
                        1e3 * t.decode, ratio, path));
      continue;
    }
    json.begin_object().key("model").value(path).key("train_seconds").value(t.train);
    json.key("prefill_seconds").value(t.prefill).key("decode_seconds").value(t.decode);
    json.key("ratio").value(ratio).end_object();
  }
  json.end_array();
  if (a.flag("json")) print(json.text() + "\n");
  return 0;
}

Option dtype_option() {
  return {.key = {.name = "dtype",
                  .type = Type::string,
                  .preset = Value("bfloat16"),
                  .choices = {"float32", "bfloat16"},
                  .doc = "Type to compute in."},
          .value = "TYPE"};
}

Option integer(std::string name, char short_name, std::int64_t preset, std::string doc,
               std::optional<double> max = {}) {
  return {.key = {.name = std::move(name),
                  .type = Type::integer,
                  .preset = Value(preset),
                  .min = 1,
                  .max = max,
                  .doc = std::move(doc)},
          .short_name = short_name,
          .value = "N"};
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
                      integer("batch", 'b', 1, "Sequences side by side.", decoder::kMostTokens),
                      integer("tokens", 'n', tokens, "Tokens per sequence.", decoder::kMostTokens),
                      integer("repeats", 0, 3, "Repeats; the median is reported.", 1000),
                      {.key = {.name = "profile",
                               .type = Type::boolean,
                               .doc = "Print the time of every kernel to stderr."}},
                      set_option(),
                      json_option()},
          .examples = {std::move(example)},
          .run = [name, workload](const Arguments& a) { return run_workload(a, name, workload); }};
}

}  // namespace

Command bench_machine_command() {
  return {.name = "bench machine",
          .summary = "measures the machine's limits: read bandwidth and peak products",
          .details = "Let nothing else run meanwhile.",
          .options = {json_option()},
          .examples = {"lamina bench machine"},
          .run = run_machine};
}

Command bench_compile_command() {
  return {
      .name = "bench compile",
      .summary = "measures how long a model takes to be traced and compiled",
      .details =
          "Prints for each model how long tracing, the passes, the choice of kernels and "
          "the memory plan take for a training step, for reading a prompt and for "
          "writing a token. The limit is 100 ms each. Needs no weights.",
      .options = {dtype_option(),
                  integer("tokens", 'n', 512, "Tokens per row or prompt.", decoder::kMostTokens),
                  integer("repeats", 0, 3, "Repeats; the median is reported.", 1000),
                  json_option()},
      .positionals = {{.name = "MODEL",
                       .doc = "Model files or directories with a model.",
                       .repeatable = true}},
      .examples = {"lamina bench compile configs/models/gpt2-124m.toml",
                   "lamina bench compile configs/models/*.toml --json"},
      .run = run_compile};
}

Command bench_decode_command() {
  return workload_command(
      "decode", "measures writing text against the machine's read bandwidth",
      "The limit is the read bandwidth, measured between the tokens, over the bytes that a "
      "token must read: every weight once for the whole batch, one row of each lookup-only "
      "table, and the decode state.",
      48, "lamina bench decode --model configs/models/bench-0.6b.toml --json", bench_decode);
}

Command bench_prefill_command() {
  return workload_command(
      "prefill", "measures reading a prompt against the machine's peak",
      "The limit is the peak of the type, measured in the same run, over the operations of the "
      "matrix products (2 M N K each) and of attention (causal: half).",
      512, "lamina bench prefill --model configs/models/bench-0.6b.toml --tokens 512",
      bench_prefill);
}

Command bench_train_command() {
  Command out = workload_command(
      "train", "measures an optimizer step against the machine's peak",
      "The limit is the peak of the type, measured in the same run, over three times the "
      "operations of a forward pass: products (2 M N K each, the head with them) and attention "
      "(causal: half), plus twice that for the backward pass. Recomputation does not count. The "
      "step is timed from tokens to updated weights, after one warm-up step.",
      256, "lamina bench train --model configs/models/gpt2-124m.toml --tokens 256", bench_train);
  out.options.push_back({.key = {.name = std::string(kLazyEmbeddings),
                                 .type = Type::boolean,
                                 .doc = "Update only the table rows that were looked up, as "
                                        "optimizer.lazy_embeddings does."}});
  return out;
}

}  // namespace lamina::cli
